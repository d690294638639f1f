// SPDX-License-Identifier: Apache-2.0
#include "worker/limits/held_memory.h"

#include <algorithm>

namespace rgpu::worker {

namespace {

// Calls f(page) for each page that a piece lies in.
template <class F> void each_page(CUdeviceptr address, uint64_t bytes, F f)
{
    for (uint64_t page = address / kMemoryPage; page <= (address + bytes - 1) / kMemoryPage; page++)
        f(page);
}

}  // namespace

void LinearMemory::hold_small(CUdeviceptr address, Held held)
{
    small_[address] = held;
    each_page(address, held.bytes, [&](uint64_t page) { pages_[page]++; });
}

uint64_t LinearMemory::new_pages(CUdeviceptr address, uint64_t bytes) const
{
    uint64_t fresh = 0;
    each_page(address, bytes, [&](uint64_t page) { fresh += !pages_.contains(page); });
    return fresh * kMemoryPage;
}

// Which pages that leaves empty.
uint64_t LinearMemory::drop_pages(CUdeviceptr address, uint64_t bytes)
{
    uint64_t empty = 0;
    each_page(address, bytes, [&](uint64_t page) {
        if (auto at = pages_.find(page); at != pages_.end() && !--at->second) {
            pages_.erase(at);
            empty++;
        }
    });
    return empty * kMemoryPage;
}

std::optional<LinearMemory::Freed> LinearMemory::freed(CUdeviceptr address)
{
    if (auto node = held_.extract(address)) return Freed{node.mapped(), 0};
    auto node = small_.extract(address);
    if (!node) return {};
    const Held piece = node.mapped();
    return Freed{{piece.device, drop_pages(address, piece.bytes)}, piece.bytes};
}

void LinearMemory::stays(CUdeviceptr address, const Freed &freed)
{
    if (freed.small)
        hold_small(address, {freed.device, freed.small});
    else
        hold(address, freed);
}

void LinearMemory::forget(int device)
{
    for (const auto &[address, piece] : small_)
        if (piece.device == device)
            each_page(address, piece.bytes, [&](uint64_t page) { pages_.erase(page); });
    std::erase_if(small_, [&](const auto &p) { return p.second.device == device; });
    std::erase_if(held_, [&](const auto &h) { return h.second.device == device; });
}

std::optional<Held> HeldObjects::of(const void *object) const
{
    const auto at = held_.find(object);
    return at == held_.end() ? std::nullopt : std::optional(at->second);
}

void HeldObjects::forget(int device)
{
    std::erase_if(held_, [&](const auto &o) { return o.second.device == device; });
}

void OpenedMemory::open(CUdeviceptr address, Held held)
{
    Opened &opened = opened_[address];
    if (!opened.times++) opened.held = held;
}

std::optional<Held> OpenedMemory::closed(CUdeviceptr address)
{
    const auto at = opened_.find(address);
    if (at == opened_.end() || --at->second.times) return {};
    return opened_.extract(at).mapped().held;
}

void OpenedMemory::forget(int device)
{
    std::erase_if(opened_, [&](const auto &o) { return o.second.held.device == device; });
}

std::optional<int> HeldPools::device_of(CUmemoryPool pool) const
{
    const auto at = pools_.find(pool);
    return at == pools_.end() ? std::nullopt : std::optional(at->second.device);
}

std::optional<std::pair<CUmemoryPool, Held>> HeldPools::freed(CUdeviceptr address)
{
    auto node = pieces_.extract(address);
    return node ? std::optional(node.mapped()) : std::nullopt;
}

Held HeldPools::destroyed(CUmemoryPool pool)
{
    const Held was = pools_.extract(pool).mapped();
    uint64_t alive = 0;
    for (const auto &[address, piece] : pieces_)
        if (piece.first == pool) alive += piece.second.bytes;
    return {was.device, was.bytes - std::min(alive, was.bytes)};
}

void HeldPools::forget(int device)
{
    std::erase_if(pieces_, [&](const auto &p) { return p.second.second.device == device; });
    for (auto &[pool, state] : pools_)
        if (state.device == device) state.bytes = 0;
}

void LeavingMemory::forget(int device)
{
    std::erase_if(leaving_, [&](const auto &l) { return l.second.device == device; });
}

std::optional<Held> PhysicalMemory::of(Handle handle) const
{
    const auto at = pieces_.find(handle);
    return at == pieces_.end() ? std::nullopt : std::optional(at->second.held);
}

void PhysicalMemory::retained(Handle handle)
{
    if (auto at = pieces_.find(handle); at != pieces_.end()) at->second.references++;
}

std::optional<Held> PhysicalMemory::released(Handle handle)
{
    const auto at = pieces_.find(handle);
    if (at == pieces_.end() || --at->second.references) return {};
    return pieces_.extract(at).mapped().held;
}

void PhysicalMemory::mapped(CUdeviceptr address, uint64_t bytes, Handle handle)
{
    mappings_[address] = {bytes, handle};
    retained(handle);
}

std::vector<Held> PhysicalMemory::unmapped(CUdeviceptr address, uint64_t bytes)
{
    std::vector<Held> given;
    for (auto at = mappings_.lower_bound(address);
         at != mappings_.end() && at->first < address + bytes; at = mappings_.erase(at))
        if (auto held = released(at->second.second)) given.push_back(*held);
    return given;
}

uint64_t PhysicalMemory::bytes_on(int device) const
{
    uint64_t bytes = 0;
    for (const auto &[handle, piece] : pieces_)
        if (piece.held.device == device) bytes = add(bytes, piece.held.bytes);
    return bytes;
}

GraphMemory::Needs GraphMemory::of(CUgraphExec graph) const
{
    const auto at = executables_.find(graph);
    return at == executables_.end() ? none() : at->second;
}

GraphMemory::Needs GraphMemory::ended(CUgraphExec graph)
{
    launched_.erase(graph);
    auto node = executables_.extract(graph);
    if (!node) return none();
    for (size_t d = 0; d < devices_.size(); d++)
        devices_[d].gone = add(devices_[d].gone, node.mapped()[d]);
    return std::move(node.mapped());
}

void GraphMemory::live_more(int device, uint64_t bytes)
{
    uint64_t &live = devices_[static_cast<size_t>(device)].live;
    live = add(live, bytes);
}

void GraphMemory::live_less(int device, uint64_t bytes)
{
    uint64_t &live = devices_[static_cast<size_t>(device)].live;
    live -= std::min(live, bytes);
}

uint64_t GraphMemory::holds(int device, uint64_t told)
{
    Device &d = devices_[static_cast<size_t>(device)];
    d.gone = std::min(d.gone, told);
    return nodes_take_memory_ ? told : std::max(told, add(d.live, d.gone));
}

void GraphMemory::forget(int device)
{
    devices_[static_cast<size_t>(device)] = {};
    for (auto &[graph, needs] : executables_) needs[static_cast<size_t>(device)] = 0;
}

int HeldContexts::device_of(CUcontext context) const
{
    int device = -1;
    for (size_t d = 0; d < contexts_.size(); d++)
        if (contexts_[d].contains(context)) device = static_cast<int>(d);
    return device;
}

}  // namespace rgpu::worker
