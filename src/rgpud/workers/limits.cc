#include "rgpud/workers/limits.h"

#include <algorithm>

namespace rgpu::serverd {
namespace {

// With a lease's threads that are not a worker's own: what a driver starts for a moment.
constexpr int kSpare = 64;
constexpr int kMostWeight = 10000;
constexpr int kGpuMemory = 2;  // times a lease's: see worker_memory in rgpu.conf(5)

}  // namespace

spawner::Limits limits_of(const RgpudConfig &config, const pool::Lease &lease, int workers)
{
    spawner::Limits limits{};
    int share = 0;
    uint64_t gpu_memory = 0;
    for (const pool::Portion &gpu : lease.gpus) share += gpu.share, gpu_memory += gpu.memory;
    if (config.worker_memory) limits.memory = config.worker_memory + kGpuMemory * gpu_memory;
    limits.pids = static_cast<int>(config.worker_pids) * workers + kSpare;
    limits.cpu_weight = std::clamp(share, 1, kMostWeight);
    if (config.worker_cpu)
        limits.cpu_hundredths =
            std::max(1, static_cast<int>(config.worker_cpu * share / kWholeGpu));
    return limits;
}

spawner::Limits both(const spawner::Limits &a, const spawner::Limits &b)
{
    return {a.memory + b.memory, a.pids + b.pids, a.cpu_hundredths + b.cpu_hundredths,
            std::min(a.cpu_weight + b.cpu_weight, kMostWeight)};
}

spawner::Limits process_limits(const RgpudConfig &config, const pool::Lease &lease, int workers)
{
    spawner::Limits limits = limits_of(config, lease, workers);
    limits.pids += spawner::kOthers;
    return limits;
}

}  // namespace rgpu::serverd
