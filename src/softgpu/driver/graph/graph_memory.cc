// SPDX-License-Identifier: Apache-2.0
#include "softgpu/driver/graph/graph_memory.h"

#include <map>
#include <mutex>

#include "softgpu/driver/state/driver.h"
#include "softgpu/driver/state/memory.h"

namespace rgpu::softgpu::driver {

namespace {

struct Known {
    std::mutex mutex;
    std::map<uint64_t, std::weak_ptr<GraphMemory>> all;
    std::map<uint64_t, std::shared_ptr<GraphMemory>> allocated;
};
Known &known()
{
    static auto *s = new Known;
    return *s;
}

}  // namespace

std::shared_ptr<GraphMemory> GraphMemory::create(Device &device, uint64_t bytes)
{
    Range made;
    made.memory = Memory::graph;
    const uint64_t address = allocate_device(device, bytes, made);
    if (!address) return nullptr;
    auto &count = device.graph_memory;
    if (const uint64_t now = count.now += bytes; now > count.high) count.high = now;
    std::shared_ptr<GraphMemory> m(new GraphMemory(device, address, bytes));
    std::lock_guard lock(known().mutex);
    known().all[address] = m;
    return m;
}

GraphMemory::~GraphMemory()
{
    std::lock_guard lock(known().mutex);
    known().all.erase(address);
    device.graph_memory.now -= bytes;
    if (auto r = driver().ranges.remove(address)) release_range(*r);
}

bool GraphMemory::allocate()
{
    std::lock_guard lock(known().mutex);
    if (allocated_.exchange(true)) return false;
    known().allocated[address] = shared_from_this();
    return true;
}

bool GraphMemory::free()
{
    std::shared_ptr<GraphMemory> keep;  // goes without the lock
    std::lock_guard lock(known().mutex);
    if (!allocated_.exchange(false)) return false;
    auto it = known().allocated.find(address);
    keep = std::move(it->second);
    known().allocated.erase(it);
    return true;
}

std::shared_ptr<GraphMemory> find_graph_memory(uint64_t address)
{
    std::lock_guard lock(known().mutex);
    auto it = known().all.find(address);
    return it == known().all.end() ? nullptr : it->second.lock();
}

CUresult free_memory(uint64_t address)
{
    const std::optional<Range> r = driver().ranges.find(address);
    if (!r || r->base != address || r->memory != Memory::graph) return free_device(address);
    auto m = find_graph_memory(address);
    return m && m->free() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace rgpu::softgpu::driver
