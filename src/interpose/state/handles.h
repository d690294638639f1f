// SPDX-License-Identifier: Apache-2.0
// The handles that the program holds: CUstream, CUmodule and so on are addresses of slots here.
//
// A slot's index is the handle's number on the wire. Slots live in one reserved range of
// addresses, so that any value a program passes can be checked without touching it, and are never
// unmapped: cudart calls the driver after static destructors ran. All members may be called by any
// thread.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <vector>

#include "calls/handles.h"
#include "interpose/state/client.h"

namespace rgpu::interpose {

using calls::HandleId;
using calls::HandleKind;

struct Slot {
    std::atomic<HandleKind> kind{HandleKind::none};
    HandleId parent = 0;                // context of a stream, module of a function, ...
    std::atomic<void *> data{nullptr};  // what the client knows of the object; never freed
    // A stream's, event's or context's flags; of a library, the servers that did not take it.
    uint32_t flags = 0;
    int32_t priority = 0;  // a stream's priority
    int32_t device = 0;    // a context's device
    uint32_t stamp = 0;    // tells objects apart that had the same number one after the other
    // What idle.h keeps: calls sent when a stream or context was idle last, or when an event was
    // recorded, and where.
    std::atomic<uint64_t> moment{0};
    HandleId recorded_in = 0;
    uint32_t recorded_stamp = 0;
    std::atomic<bool> done{false};    // an event's; of a primary context: it was reset or released,
                                      // and not retained since
    uint8_t server = 0;               // where it is (servers.h)
    std::atomic<uint64_t> legacy{0};  // a context's: the moment of its legacy default stream
};
inline constexpr uint8_t kEverywhere = 255;  // a library or kernel, which all servers have
inline constexpr size_t kSlotBytes = 64;
static_assert(sizeof(Slot) <= kSlotBytes);

class Handles {
public:
    Handles();
    ~Handles();
    Handles(const Handles &) = delete;
    Handles &operator=(const Handles &) = delete;

    // The process's table, made at first use.
    static Handles &get() { return client_part<Handles>(Part::handles); }

    // False where the process has no room for it: then there can be no handles.
    bool is_there() const { return base_ != 0; }

    // Makes room for the numbers of so many servers. `here` says where an object is that the
    // calling thread makes; without it there is one server. Before there is a handle.
    void span(size_t servers, unsigned (*here)());
    // One server again, in the child of a fork: takes no lock that the parent's threads may hold.
    void forget_servers() { here_.store(nullptr, std::memory_order_relaxed); }

    // A new number of this kind; 0 when all are in use.
    HandleId make(HandleKind kind, HandleId parent = 0);
    // The slot of an object that the server named, made if it is new, and its number here: several
    // servers give the same numbers. Null for what can be no number.
    Slot *adopt(HandleKind kind, HandleId &id, HandleId parent);
    // The number may be used again, but a context's. Unknown numbers are ignored.
    void end(HandleId id);
    // A context has ended or was reset: it gets a new stamp. Returns what was made in it and ended
    // with it (cuda.h: cuCtxDestroy), but for functions, which are their module's.
    std::vector<HandleId> empty_context(HandleId context);

    Slot *at(HandleId id) { return reinterpret_cast<Slot *>(base_ + size_t{id} * kSlotBytes); }

    template <class T> T handle(HandleId id)
    {
        return id < calls::kFirstHandle ? reinterpret_cast<T>(uintptr_t{id})
                                        : reinterpret_cast<T>(at(id));
    }
    // The handle of an object that the server named; null for what can be no number.
    template <class T> T named(HandleId id, HandleId parent)
    {
        return adopt(calls::kHandleKind<T>, id, parent) ? handle<T>(id) : nullptr;
    }
    // The number of a handle that a program passed, if it is a live one of the right kind, null, or
    // (streams) a special one.
    template <class T> std::optional<HandleId> id(T handle)
    {
        return find(reinterpret_cast<uintptr_t>(handle), calls::kHandleKind<T>);
    }
    // The slot of a live handle that is an object, or null.
    template <class T> Slot *slot(T handle)
    {
        auto n = id(handle);
        return n && *n >= calls::kFirstHandle ? at(*n) : nullptr;
    }

private:
    std::optional<HandleId> find(uintptr_t value, HandleKind kind);

    void map(size_t servers);
    void unmap() const;

    std::atomic<unsigned (*)()> here_{nullptr};
    uintptr_t base_ = 0;
    HandleId end_ = calls::kMaxHandles;  // of all numbers
    std::mutex mutex_;
    HandleId next_ = calls::kFirstHandle;
    std::vector<HandleId> free_;
    uint32_t last_stamp_ = 0;
};

}  // namespace rgpu::interpose
