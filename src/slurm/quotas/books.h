// SPDX-License-Identifier: Apache-2.0
// Who holds licences of rgpu under which QOS, who waits for some, and what is left: what rgpu slurm
// preempt reads of squeue and sacctmgr, and counts with. Starts no process, and knows no clock.
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
    bool het = false;                                 // a part of a heterogeneous job
    bool requeues = false;                            // Slurm may requeue it
    std::string user = {}, account = {}, partition = {};
    std::string comment = {};  // AdminComment
};

// What squeue -O is to print for parse_queue(). Jobs without licences of rgpu are left out. Nothing
// that a user can write stands before the comment, and that ends with a byte that Slurm lets nobody
// write.
inline constexpr const char *kQueueFormat =
    "JobID:|,JobArrayID:|,State:|,Reason:|,QOS:|,StartTime:|,PriorityLong:|,BatchFlag:|,Requeue:|,"
    "UserName:|,Account:|,Partition:|,Licenses:|,admin_comment:\x1f";
// With -r it has a line for each task of an array that waits; those that are one record of Slurm's
// are one here, "14_[3,4]". Without, it shows records as one that are not.
std::vector<QueuedJob> parse_queue(std::string_view printed);

// Those that are pending, that of the highest priority first.
std::vector<const QueuedJob *> pending(const std::vector<QueuedJob> &queue);

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
    std::map<std::string, unsigned long> of_types = {};  // the same of rgpu_TYPE
};

// What sacctmgr is to print for parse_qos(), with -P.
inline constexpr const char *kQosFormat = "format=name,priority,preempt,grptres";
std::vector<Qos> parse_qos(std::string_view printed);

// Licences by type, the sum under an empty name.
using Amounts = std::map<std::string, long>;
Amounts amounts_of(const QueuedJob &job);
void add(Amounts &to, const Amounts &more, long sign = 1);
// Of each of those needed there is enough.
bool covers(const Amounts &there, const Amounts &needed);

// Refers to what it was made of.
class Books {
public:
    // `sold` is how many licences Slurm may have in use at once, also of types.
    Books(const std::vector<QueuedJob> &queue, const std::vector<Qos> &all,
          const OwnLicences &sold);

    const Qos *find(const std::string &name) const;
    // The limits of the QOS let its jobs hold so much more. False for a QOS that is not known.
    bool has_room(const std::string &qos, const Amounts &more) const;
    // Below 0 where a server went away under running jobs.
    const Amounts &free() const { return free_; }
    const std::vector<const QueuedJob *> &running() const { return running_; }

    void starts(const std::string &qos, const Amounts &of_job);
    void ends(const QueuedJob &job);
    // One that has started has another QOS.
    void changes(const std::string &from, const std::string &to, const Amounts &of_job);

private:
    const std::vector<Qos> &all_;
    std::vector<const QueuedJob *> running_;
    std::map<std::string, Amounts> held_;  // by QOS
    Amounts free_;
};

}  // namespace rgpu::slurm
