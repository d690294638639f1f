// SPDX-License-Identifier: Apache-2.0
// What a lease's workers may take of a host, at the edges of what rgpu.conf allows.
#include "rgpud/workers/limits.h"

#include <criterion/criterion.h>

using namespace rgpu;
using namespace rgpu::serverd;

namespace {

constexpr int64_t kMostPids = 4194304;  // PID_MAX_LIMIT: pids.max takes no more

pool::Lease lease_of(int gpus, int share, uint64_t memory)
{
    pool::Lease lease;
    for (int i = 0; i < gpus; ++i) {
        pool::Portion portion;
        portion.share = share;
        portion.memory = memory;
        lease.gpus.push_back(portion);
    }
    return lease;
}

RgpudConfig config_of(int64_t pids, int64_t cpu, uint64_t memory)
{
    RgpudConfig config;
    config.worker_pids = pids;
    config.worker_cpu = cpu;
    config.worker_memory = memory;
    return config;
}

}  // namespace

Test(limits, follow_from_the_lease)
{
    const Limits limits = limits_of(config_of(100, 200, 1 << 20), lease_of(2, 50, 1 << 20), 3);
    cr_expect_eq(limits.pids, 364);
    cr_expect_eq(limits.cpu_hundredths, 200);
    cr_expect_eq(limits.cpu_weight, 100);
    cr_expect_eq(limits.memory, 5 << 20);
    const ProcessLimits one = process_limits(limits);
    cr_expect_eq(one.processes, 364 + 4096, "beside others of its user");
    cr_expect_eq(one.data, (5ull << 20) + 364 * (8ull << 20), "with its own threads' stacks");
}

Test(limits, the_most_workers_with_the_most_threads_do_not_overflow)
{
    const Limits most = limits_of(config_of(65536, 1'000'000, uint64_t{1} << 44),
                                  lease_of(64, 100, 1ull << 62), 65536);
    cr_expect_eq(most.pids, kMostPids);
    cr_expect_eq(most.cpu_hundredths, 1'000'000, "a quota that the kernel takes");
    cr_expect_eq(most.memory, UINT64_MAX);
    cr_expect_eq(most.cpu_weight, 6400);
    // One more than fits in 32 bits is not one.
    cr_expect_eq(limits_of(config_of(65536, 0, 0), lease_of(1, 100, 0), 65536).pids, kMostPids);
    cr_expect_eq(limits_of(config_of(65536, 0, 0), lease_of(1, 100, 0), 32768).pids, kMostPids);
}

Test(limits, of_many_leases_do_not_overflow)
{
    const Limits one = limits_of(config_of(65536, 1'000'000, uint64_t{1} << 44),
                                 lease_of(64, 100, 1ull << 62), 65536);
    Limits all = one;
    for (int i = 0; i < 1000; ++i) all = both(all, one);
    cr_expect_eq(all.pids, kMostPids);
    cr_expect_eq(all.cpu_hundredths, 1'000'000);
    cr_expect_eq(all.cpu_weight, 10000);
    cr_expect_eq(all.memory, UINT64_MAX);
    const ProcessLimits process = process_limits(all);
    cr_expect_eq(process.data, UINT64_MAX);
    cr_expect_eq(process.processes, static_cast<uint64_t>(kMostPids) + 4096);
}

Test(limits, of_nothing_are_none)
{
    const ProcessLimits none = process_limits({});
    cr_expect_eq(none.data, 0);
    cr_expect_eq(none.processes, 0);
    cr_expect_eq(limits_of(config_of(64, 0, 0), lease_of(1, 100, 1 << 20), 1).memory, 0);
}
