// SPDX-License-Identifier: Apache-2.0
// Which jobs make way for one that waits for licences: the rules of rgpu slurm preempt. Pure
// functions.
//
// The rules are those by which Slurm preempts for licences by itself since 23.02
// (PreemptType=preempt/qos, reclaim_licenses).
#pragma once

#include <string>
#include <vector>

#include "slurm/quotas/books.h"

namespace rgpu::slurm {

struct Victim {
    std::string name, qos;
    std::string for_job, for_qos;
};

// What becomes of those that wait.
struct MadeWay {
    std::vector<Victim> victims;              // to be requeued now
    std::vector<const QueuedJob *> starting;  // those that can start then, also without victims
};

// A job that waits for licences gets victims if its QOS' guarantee has room for it, and they are
// enough: running jobs of QOS that its own preempts, those of the lowest priority first, the
// youngest of them first, and none that is not needed. The one of the highest priority is served
// first. The books are then as they will be.
MadeWay make_way(const std::vector<QueuedJob> &queue, Books &books);

}  // namespace rgpu::slurm
