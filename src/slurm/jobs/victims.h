// SPDX-License-Identifier: Apache-2.0
// Which jobs make way for one that waits for licences: the rules of rgpu slurm preempt, and what
// they read of squeue and sacctmgr. Pure functions.
//
// The rules are those by which Slurm preempts for licences by itself since 23.02
// (PreemptType=preempt/qos, reclaim_licenses).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "slurm/terms/licences.h"

namespace rgpu::slurm {

struct QueuedJob {
    std::string id;
    std::string
        name;  // of what Slurm requeues together: "17", "14_3", of a heterogeneous job the leader
    std::string state;   // PENDING, RUNNING, ...
    std::string reason;  // why it is pending
    std::string qos;
    std::string start;  // as Slurm writes times, so that a later one is greater
    unsigned long priority = 0;
    unsigned long licences = 0;                       // of rgpu
    std::map<std::string, unsigned long> types = {};  // of rgpu_TYPE
};

// What squeue is to print for parse_queue(). Jobs without licences of rgpu are left out.
inline constexpr const char *kQueueFormat = "%A|%i|%T|%r|%q|%S|%Q|%W";
std::vector<QueuedJob> parse_queue(std::string_view printed);

// That the job may be waiting for licences, and for nothing else. With bf_licenses the main
// scheduler stops at the first job that does, so that those behind it have no reason or that of
// their place.
bool waits_for_licences(const QueuedJob &job);

struct Qos {
    std::string name;
    unsigned long priority = 0;
    std::vector<std::string> preempts;  // names
    std::optional<unsigned long>
        guarantee;  // licences of rgpu that its jobs may hold together; without: no limit
};

// What sacctmgr is to print for parse_qos(), with -P.
inline constexpr const char *kQosFormat = "format=name,priority,preempt,grptres";
std::vector<Qos> parse_qos(std::string_view printed);

struct Victim {
    std::string name, qos;
    std::string for_job, for_qos;
};

// Whom to requeue now. `sold` is how many licences Slurm may have in use at once, also of types. A
// job that waits for licences gets victims if its QOS' guarantee has room for it, and they are
// enough: running jobs of QOS that its own preempts, those of the lowest priority first, the
// youngest of them first, and none that is not needed. The one of the highest priority is served
// first.
std::vector<Victim> victims(const std::vector<QueuedJob> &queue, const std::vector<Qos> &all,
                            const OwnLicences &sold);

}  // namespace rgpu::slurm
