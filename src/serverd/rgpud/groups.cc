#include "serverd/rgpud/groups.h"

#include <algorithm>

#include "util/log.h"
#include "util/sha256.h"

namespace rgpu::serverd {
namespace {

// With a lease's threads that are not a worker's own: what a driver starts for a moment.
constexpr int kSpare = 64;
// Where nothing but a user's processes can be counted, he may have others on this host.
constexpr int kOthers = 4096;
constexpr int kMostWeight = 10000;
constexpr int kGpuMemory = 2;  // times a lease's: see worker_memory in rgpu.conf(5)

std::string group_of(const std::string &lease) { return "lease-" + lease; }

// Several rgpuds may be on one host, and each ends what it does not know.
std::string base_name(const RgpudConfig &config)
{
    return "rgpud-" + to_hex(sha256(config.state_dir)).substr(0, 12);
}

}  // namespace

spawner::Limits limits_of(const RgpudConfig &config, const pool::Lease &lease, int workers)
{
    spawner::Limits limits;
    int share = 0;
    uint64_t gpu_memory = 0;
    for (const pool::Portion &gpu : lease.gpus)
        share += gpu.share, gpu_memory += gpu.memory;
    if (config.worker_memory)
        limits.memory = config.worker_memory + kGpuMemory * gpu_memory;
    limits.pids = static_cast<int>(config.worker_pids) * workers + kSpare;
    limits.cpu_weight = std::clamp(share, 1, kMostWeight);
    if (config.worker_cpu)
        limits.cpu_hundredths = std::max(1, static_cast<int>(config.worker_cpu * share / kWholeGpu));
    return limits;
}

Groups::Groups(const RgpudConfig &config) : config_(config), base_(spawner::CgroupBase::find(base_name(config)))
{
    log_info("%s", base_.told().c_str());
}

Groups::~Groups()
{
    (void)remove_ended();
    if (base_.names().empty())
        base_.remove();
}

void Groups::end_all_but(const std::set<std::string> &leases)
{
    for (const std::string &name : base_.names())
        if (std::none_of(leases.begin(), leases.end(), [&](const std::string &lease) { return group_of(lease) == name; })) {
            if (Result<spawner::Cgroup> group = base_.open(name))
                (void)group->kill();
            ended_.insert(name);
        }
}

Result<std::vector<Fd>> Groups::admit(const pool::Lease &lease, int workers, Launch &launch)
{
    const spawner::Limits limits = limits_of(config_, lease, workers);
    ended_.erase(group_of(lease.id));
    Result<spawner::Cgroup> group = base_.make(group_of(lease.id), limits);
    if (!group)
        return std::move(group).error().in("a cgroup");
    Result<std::vector<Fd>> doors = group->doors();
    if (!doors)
        return std::move(doors).error().in("a cgroup");
    for (const Fd &door : *doors)
        launch.doors.push_back(door.get());
    if (!*group) {
        launch.limits = limits;
        launch.limits.pids += kOthers;
    }
    return doors;
}

void Groups::end(const std::string &lease)
{
    if (Result<spawner::Cgroup> group = base_.open(group_of(lease)); group && *group && group->kill())
        ended_.insert(group_of(lease));
    (void)remove_ended();
}

bool Groups::remove_ended()
{
    std::erase_if(ended_, [this](const std::string &name) {
        Result<spawner::Cgroup> group = base_.open(name);
        return !group || group->remove();
    });
    return ended_.empty();
}

}  // namespace rgpu::serverd
