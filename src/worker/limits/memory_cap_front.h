// SPDX-License-Identifier: Apache-2.0
// What the files that put calls in front of the driver share; for memory_cap_*.cc alone.
#pragma once

#include <tuple>

#include "worker/limits/memory_cap.h"

namespace rgpu::worker::capped {

// The process's, from put_in_front() on: plain functions stand in front of the driver's, and have
// no other way to it.
inline MemoryCap &the_cap() { return *memory_cap(); }

#define REAL(name) (::rgpu::worker::capped::the_cap().real.call<::rgpu::calls::CallId::name>())

// All of them are carried out one after the other, but for those that wait (end_waiting).
struct Entry {
    std::unique_lock<std::recursive_mutex> lock = the_cap().lock();
    MemoryCap *operator->() const { return &the_cap(); }
};

// A call as it is, its cost measured on the current device.
template <CallId Id> void measure(Driver &driver)
{
    driver.replace<Id>([](auto... a) -> CUresult {
        if (!the_cap().is_strict()) return the_cap().real.call<Id>()(a...);
        Entry cap;
        return cap->measured(cap->current_device(),
                             [&] { return the_cap().real.call<Id>()(a...); });
    });
}

// A call that makes something, and one that ends it.
template <class Handle, class Make, class End>
CUresult make_measured(int device, Handle *made, Make make, End end, MemoryCap::Bounds bounds = {})
{
    uint64_t cost = 0;
    CUresult r = the_cap().measured(
        device, make, [&] { return end(*made); }, bounds, cost);
    if (!r && made) the_cap().objects.hold(*made, {device, cost});
    return r;
}

template <CallId Id, CallId Undo> void measure_made(Driver &driver)
{
    driver.replace<Id>([](auto *made, auto... a) -> CUresult {
        Entry cap;
        return make_measured(
            cap->current_device(), made, [&] { return the_cap().real.call<Id>()(made, a...); },
            [](auto handle) { return the_cap().real.call<Undo>()(handle); });
    });
}

template <class End> CUresult end_measured(const void *object, End end)
{
    const auto known = the_cap().objects.of(object);
    const Held held = known ? *known : Held{the_cap().current_device(), 0};
    CUresult r = the_cap().released(held.device, held.bytes, end);
    if (!r) the_cap().objects.ended(object);
    return r;
}

template <CallId Id> void measure_end(Driver &driver)
{
    driver.replace<Id>([](auto handle) -> CUresult {
        Entry cap;
        return end_measured(handle, [&] { return the_cap().real.call<Id>()(handle); });
    });
}

// One that may wait for the device's work. Other calls go on meanwhile: the work may be waiting for
// what they bring. What it gave back is measured only if there were none, and else is what was
// counted.
template <class End> CUresult end_waiting(const void *object, End end)
{
    std::optional<Held> known;
    Held held;
    std::optional<uint64_t> before;
    uint64_t entries = 0;
    {
        Entry cap;
        known = cap->objects.of(object);
        held = known ? *known : Held{cap->current_device(), 0};
        cap->objects.ended(object);
        if (cap->has(held.device) && cap->is_strict()) before = cap->own(held.device);
        entries = cap->entries();
    }
    const CUresult r = end();
    Entry cap;
    if (r && known) cap->objects.hold(object, held);
    if (r || !cap->has(held.device)) return r;
    const auto after = before && cap->entries() == entries + 1 ? cap->own(held.device)
                                                               : std::nullopt;
    cap->give(held.device, after ? *before - std::min(*before, *after) : held.bytes);
    return CUDA_SUCCESS;
}

template <CallId Id> void measure_waiting_end(Driver &driver)
{
    driver.replace<Id>([](auto handle) -> CUresult {
        const CUresult r = end_waiting(handle, [&] { return the_cap().real.call<Id>()(handle); });
        // A function that comes after may have the same handle.
        using Handle = decltype(handle);
        if constexpr (std::is_same_v<Handle, CUmodule> || std::is_same_v<Handle, CUlibrary>) {
            Entry cap;
            cap->contexts.launch_anew();
        }
        return r;
    });
}

void put_graphs_in_front(Driver &);
void put_code_in_front(Driver &);

}  // namespace rgpu::worker::capped
