// Which of the calls that are served from their roles put work on the GPU, and so need a turn
// (turns.h).
//
// All copies that are served from their roles are copies on the device, of boxes and arrays too.
// Copies between host and GPU need none: copy engines do them beside the kernels.
#pragma once

#include <optional>

#include "calls/calls.h"
#include "worker/session/session.h"

namespace rgpu::worker {

consteval bool puts_work(calls::CallId id)
{
    using calls::CallId;
    const std::string_view symbol = calls::info(id).symbol;
    return symbol.starts_with("cuMemset") || symbol.starts_with("cuMemcpy") ||
           id == CallId::cuGraphLaunch;
}

consteval bool ends_stream(calls::CallId id) { return id == calls::CallId::cuStreamDestroy_v2; }

// Stands around the driver's call: waits for the turn if the call needs one. Slots: serve.h.
template <calls::CallId Id> class MayLaunch {
public:
    template <class... Slots>
    explicit MayLaunch([[maybe_unused]] Session &s, [[maybe_unused]] const Slots &...slots)
    {
        if constexpr (ends_stream(Id)) s.turns.mark();
        if constexpr (puts_work(Id)) {
            // A graph is known by its own handle; of the others all calls are one kind.
            const void *work = &calls::kCalls[static_cast<size_t>(Id)];
            CUstream stream = nullptr;
            (look(slots, work, stream), ...);
            launching_.emplace(s.turns, s.context(), work, stream);
        }
    }

private:
    template <class Slot> static void look(const Slot &slot, const void *&work, CUstream &stream)
    {
        if constexpr (requires { slot.value; }) {
            if constexpr (std::is_same_v<decltype(slot.value), CUstream>)
                stream = slot.value;
            else if constexpr (std::is_same_v<decltype(slot.value), CUgraphExec>)
                work = slot.value;
        }
    }

    std::optional<Launching> launching_;
};

}  // namespace rgpu::worker
