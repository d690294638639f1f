// SPDX-License-Identifier: Apache-2.0
#include "worker/connection/lanes.h"

#include <sys/socket.h>

#include <mutex>

#include "wire/lanes.h"

namespace rgpu::worker {

namespace {

std::mutex mutex;
std::vector<net::OwnSocket> &kept = *new std::vector<net::OwnSocket>;
bool taken = false;

}  // namespace

void keep_lane(Fd lane)
{
    std::lock_guard lock(mutex);
    if (taken || kept.size() == wire::kMostLanes) return;
    const auto place = static_cast<wire::LanePlace>(kept.size());
    // The first bytes that it carries: there is room.
    if (send(lane.get(), &place, sizeof place, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof place)
        kept.emplace_back(std::move(lane));
}

std::vector<net::OwnSocket> take_lanes(size_t count)
{
    std::lock_guard lock(mutex);
    if (taken || kept.size() < count) return {};
    taken = true;
    while (kept.size() > count) kept.pop_back();
    return std::move(kept);
}

}  // namespace rgpu::worker
