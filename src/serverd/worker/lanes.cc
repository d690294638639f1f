#include "serverd/worker/lanes.h"

#include <sys/socket.h>

#include <cstdlib>
#include <mutex>

#include "serverd/handover.h"
#include "wire/lanes.h"

namespace rgpu::worker {

namespace {

std::mutex mutex;
std::vector<Fd> &kept = *new std::vector<Fd>;
bool taken = false;

}  // namespace

uint64_t worker_number()
{
    const char *number = getenv(serverd::kWorkerNumberVariable);
    return number && !getenv("RGPU_WORKER_KEY") ? serverd::parse_worker_number(number) : 0;
}

void keep_lane(Fd lane)
{
    std::lock_guard lock(mutex);
    if (taken || kept.size() == wire::kMostLanes) return;
    const auto place = static_cast<wire::LanePlace>(kept.size());
    // The first bytes that it carries: there is room.
    if (send(lane.get(), &place, sizeof place, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof place) kept.push_back(std::move(lane));
}

std::vector<Fd> take_lanes(size_t count)
{
    std::lock_guard lock(mutex);
    if (taken || kept.size() < count) return {};
    taken = true;
    kept.resize(count);
    return std::move(kept);
}

}  // namespace rgpu::worker
