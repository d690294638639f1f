// SPDX-License-Identifier: Apache-2.0
// What squeue says of the jobs that hold or want GPUs of the pool, and what follows from it for one
// that waits: the arithmetic of `rgpu why`. Starts no process, and knows no clock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "slurm/terms/licences.h"

namespace rgpu::slurm {

// Times are seconds since the epoch; 0 is one that Slurm does not know yet.
struct PoolJob {
    std::string id;  // as people name it: "14", "14_3"
    std::string user, state, reason;
    int64_t submitted = 0;
    int64_t start = 0;  // when it started; of a waiting job Slurm's estimate
    int64_t end = 0;    // when its time limit ends it at the latest
    unsigned nodes = 1;
    OwnLicences licences;  // the pool's
    unsigned gpus = 0;     // on each node
    std::string type;      // of rgpu:TYPE:N; empty without
    std::string qos;
    bool requeues = false;  // Slurm may requeue it
    std::string comment;    // AdminComment

    // Hundredths of each GPU; 100 where that cannot be told.
    unsigned share() const;
    bool waits() const { return state == "PENDING"; }
    // What its prolog wrote into its AdminComment for a job that Slurm has started and that waits
    // for GPUs there; empty: nothing.
    std::string prolog_note() const;
    // The QOS that rgpu slurm preempt moved it out of; empty: it is in its own.
    std::string moved_from() const;
    bool holds() const
    {
        return state == "RUNNING" || state == "CONFIGURING" || state == "COMPLETING" ||
               state == "SUSPENDED";
    }
};

// What squeue -O is to print for parse_pool_jobs(): nothing that a user can write stands before the
// comment, and that ends with a byte that Slurm lets nobody write.
inline constexpr const char *kPoolJobFormat =
    "JobArrayID:|,UserName:|,State:|,Reason:|,SubmitTime:|,StartTime:|,EndTime:|,NumNodes:|,"
    "QOS:|,BatchFlag:|,Requeue:|,Licenses:|,tres-per-node:|,admin_comment:\x1f";
std::vector<PoolJob> parse_pool_jobs(std::string_view printed);

// What keeps a waiting job from running, by the reason that Slurm gives (squeue(1), "JOB REASON
// CODES").
enum class Obstacle {
    gpus,      // licences of the pool
    nodes,     // processors, memory or nodes of Slurm's own
    priority,  // jobs that go first
    limit,     // of its user, account, QOS or partition
    held,      // somebody holds it back
    time,      // a time that it asked for, or a dependency
    other,
};
Obstacle obstacle_of(std::string_view reason);
// One sentence for its user: what that means and who can do something about it.
std::string explain(Obstacle, std::string_view reason);

// What beside that is to be said of quotas to the user of a job that waits or runs; empty: nothing.
// `over_quota` is [slurm] over_quota.
std::string about_quota(const PoolJob &job, bool over_quota);

// When so many more licences are free, by the time limits of those that hold some: the job that
// ends last of those needed; null where not even all of them have enough, or one of them has no
// limit.
const PoolJob *enough_after(const std::vector<PoolJob> &holders, unsigned long missing);

}  // namespace rgpu::slurm
