// SPDX-License-Identifier: Apache-2.0
#include "rgpud/workers/limits.h"

#include <algorithm>

namespace rgpu::serverd {
namespace {

// With a lease's threads that are not a worker's own: what a driver starts for a moment.
constexpr int64_t kSpare = 64;
constexpr int64_t kMostWeight = 10000;
constexpr int64_t kGpuMemory = 2;  // times a lease's: see worker_memory in rgpu.conf(5)
// What the kernel takes: PID_MAX_LIMIT, and of quotas (2^44 ns in a period) a round number below.
constexpr int64_t kMostPids = 4 << 20, kMostCpu = 1'000'000;
constexpr uint64_t kOthers = 4096;    // processes of the same user that are none of ours
constexpr uint64_t kStack = 8 << 20;  // bytes that a thread's stack counts as data, used or not

template <class T> T sum(T a, T b, T most)
{
    T result;
    return __builtin_add_overflow(a, b, &result) ? most : std::min(result, most);
}

template <class T> T product(T a, T b, T most)
{
    T result;
    return __builtin_mul_overflow(a, b, &result) ? most : std::min(result, most);
}

}  // namespace

Limits limits_of(const RgpudConfig &config, const pool::Lease &lease, int workers)
{
    Limits limits{};
    int64_t share = 0;
    uint64_t gpu_memory = 0;
    for (const pool::Portion &gpu : lease.gpus) {
        share = sum<int64_t>(share, gpu.share, INT64_MAX);
        gpu_memory = sum<uint64_t>(gpu_memory, gpu.memory, UINT64_MAX);
    }
    if (config.worker_memory)
        limits.memory = sum<uint64_t>(config.worker_memory,
                                      product<uint64_t>(kGpuMemory, gpu_memory, UINT64_MAX),
                                      UINT64_MAX);
    limits.pids = sum(product<int64_t>(config.worker_pids, workers, kMostPids), kSpare, kMostPids);
    limits.cpu_weight = std::clamp<int64_t>(share, 1, kMostWeight);
    if (config.worker_cpu)
        limits.cpu_hundredths = std::clamp<int64_t>(
            product<int64_t>(config.worker_cpu, share, INT64_MAX) / kWholeGpu, 1, kMostCpu);
    return limits;
}

Limits both(const Limits &a, const Limits &b)
{
    return {sum(a.memory, b.memory, UINT64_MAX), sum(a.pids, b.pids, kMostPids),
            sum(a.cpu_hundredths, b.cpu_hundredths, kMostCpu),
            sum(a.cpu_weight, b.cpu_weight, kMostWeight)};
}

ProcessLimits process_limits(const Limits &limits)
{
    ProcessLimits one{};
    if (limits.pids) one.processes = static_cast<uint64_t>(limits.pids) + kOthers;
    if (limits.memory)
        one.data =
            sum<uint64_t>(limits.memory, static_cast<uint64_t>(limits.pids) * kStack, UINT64_MAX);
    return one;
}

}  // namespace rgpu::serverd
