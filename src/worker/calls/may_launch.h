// SPDX-License-Identifier: Apache-2.0
// The turn of a call that is served from its roles: where its line says that it puts work on the
// GPU, its driver call waits for the turn (turns.h).
#pragma once

#include <optional>

#include "calls/roles.h"
#include "worker/session/session.h"

namespace rgpu::worker {

// Whether one of the parameters is a stream that the call ends.
template <calls::CallId Id> consteval bool ends_stream()
{
    return []<class... A>(CUresult (*)(A...)) {
        [[maybe_unused]] constexpr auto roles = calls::roles<Id>();
        [[maybe_unused]] size_t i = 0;
        return ((roles[i++].kind == calls::RoleKind::ends && std::is_same_v<A, CUstream>) || ... ||
                false);
    }(typename calls::Row<Id>::Function(nullptr));
}

// Stands around the driver's call: waits for the turn if the call needs one. Slots: serve.h.
template <calls::CallId Id> class MayLaunch {
public:
    template <class... Slots>
    explicit MayLaunch([[maybe_unused]] Session &s, [[maybe_unused]] const Slots &...slots)
    {
        if constexpr (ends_stream<Id>()) s.turns.mark();
        if constexpr (calls::Row<Id>::info.facts.work) {
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
