// SPDX-License-Identifier: Apache-2.0
#include "interpose/code/known_launches.h"

#include <algorithm>
#include <mutex>
#include <set>

#include "interpose/state/client.h"

namespace rgpu::interpose {

namespace {

constexpr size_t kMostShapes = 4096;

struct Shapes {
    std::mutex mutex;
    std::set<LaunchShape> taken;
};

// Limits that are of an older one say nothing about dynamic shared memory.
uint16_t generation()
{
    return static_cast<uint16_t>(
        client_counter(Counter::launch_limits).load(std::memory_order_relaxed));
}

Shapes &shapes() { return client_part<Shapes>(Part::launch_shapes); }

}  // namespace

KnownLimits::KnownLimits(const KnownLimits &other)
{
    for (size_t i = 0; i < kDevices; i++)
        known_[i] = other.known_[i].load(std::memory_order_relaxed);
}

KnownLimits::Known KnownLimits::known(CUdevice device) const
{
    Known k = known_[static_cast<size_t>(device)].load(std::memory_order_relaxed);
    if (const uint16_t now = generation(); k.generation != now) k = {k.threads, now, 0};
    return k;
}

bool KnownLimits::covers(CUdevice device, uint32_t threads, uint32_t dynamic_shared) const
{
    if (device < 0 || static_cast<size_t>(device) >= kDevices) return false;
    const Known k = known(device);
    return threads <= k.threads && dynamic_shared <= k.dynamic_shared;
}

void KnownLimits::add(CUdevice device, wire::LaunchLimits l)
{
    if (device < 0 || static_cast<size_t>(device) >= kDevices || !l.threads) return;
    Known k = known(device);
    k.threads =
        std::max(k.threads, static_cast<uint16_t>(std::min<uint32_t>(l.threads, UINT16_MAX)));
    k.dynamic_shared = std::max(k.dynamic_shared, l.dynamic_shared);
    known_[static_cast<size_t>(device)].store(k, std::memory_order_relaxed);
}

void KnownLimits::set_dynamic_shared(CUdevice device, uint32_t bytes)
{
    if (device < 0 || static_cast<size_t>(device) >= kDevices) return;
    if (bytes < known(device).dynamic_shared) client_counter(Counter::launch_limits)++;
    Known k = known(device);
    k.dynamic_shared = bytes;
    known_[static_cast<size_t>(device)].store(k, std::memory_order_relaxed);
}

bool was_taken(const LaunchShape &shape)
{
    std::lock_guard lock(shapes().mutex);
    return shapes().taken.contains(shape);
}

void note_taken(const LaunchShape &shape)
{
    std::lock_guard lock(shapes().mutex);
    if (shapes().taken.size() >= kMostShapes) shapes().taken.clear();
    shapes().taken.insert(shape);
}

}  // namespace rgpu::interpose
