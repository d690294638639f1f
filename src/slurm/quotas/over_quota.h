// SPDX-License-Identifier: Apache-2.0
// Jobs that wait for nothing but their QOS' limit on GPUs, while GPUs are idle: which of them rgpu
// slurm preempt moves to the QOS for what is over, and which it takes back ([slurm] over_quota).
// Pure functions.
//
// Slurm changes the QOS of a waiting job only. So a moved job that runs stays what it is, and who
// has a claim on its GPUs may have it requeued. It is back in its own QOS as soon as it waits
// again. Where it came from stands in its AdminComment (jobs/record.h). A job without that mark is
// where its user has put it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "slurm/quotas/books.h"
#include "slurm/quotas/victims.h"

namespace rgpu::slurm {

// A job in the QOS for what is over that has not started within this time, though GPUs were idle,
// lacks something else: Slurm's backfill looks each half minute.
inline constexpr std::chrono::seconds kOverQuotaTry{120};
// It is then left in its own QOS for this long, so that slurmctld is not asked for the same again
// and again.
inline constexpr std::chrono::seconds kOverQuotaRest{600};

// What a user may use in an account, in one partition or (empty) in all.
struct Association {
    std::string user, account, partition;
    std::vector<std::string> qos;
};
// What sacctmgr is to print for parse_associations(), with -P.
inline constexpr const char *kAssociationFormat = "format=user,account,partition,qos";
std::vector<Association> parse_associations(std::string_view printed);

// The file that rgpu slurm preempt touches each time it runs, for rgpu slurm check; beside the
// snapshot.
std::string run_stamp(const std::string &snapshot);

// The users of jobs that may have to be moved; with none, there is nothing to do.
std::vector<std::string> movers(const std::vector<QueuedJob> &queue);

// What scontrol update is to do to a job, in one call.
struct Move {
    std::string job;       // "17", "14_3", "14_[3,4]"
    std::string from, to;  // QOS; the same where only the comment changes
    std::string comment;   // AdminComment
};

// The books are those that make_way() left, and `made` is what it said. Moves the jobs of the
// highest priority first, as many as find what they want idle, and takes it in the books. The tasks
// of an array that wait are moved together, where one finds that: Slurm does not look at one of
// them while another waits for a limit. A job is moved if
// - it waits for its QOS' limit on licences (QOSGrpLicense), which has no room for it;
// - Slurm may requeue it: one that would be cancelled instead is never moved;
// - its user may use one of the QOS that its own preempts, and that has room: that of the lowest
//   priority.
// It goes back if it does not wait for licences that it can have now, or if its own QOS has room.
// One that has not started within kOverQuotaTry, or that the other QOS does not let
// start, is then left alone for kOverQuotaRest. `now` is wall clock, in seconds.
std::vector<Move> moves(const std::vector<QueuedJob> &queue, Books &books, const MadeWay &made,
                        const std::vector<Association> &associations, int64_t now);

}  // namespace rgpu::slurm
