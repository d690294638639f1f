// SPDX-License-Identifier: Apache-2.0
// The runs of Slurm's jobs against the leases that servers have of them: what rgpu slurm sync acts
// on. Pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pool/client/client.h"

namespace rgpu::slurm {

// A job that has not ended, as it is now.
struct JobRun {
    std::string id;
    std::string name;   // "17", "14_3", "22+1"
    std::string state;  // PENDING, RUNNING, ...
    int restarts = 0;
    unsigned long licences = 0;                       // of rgpu
    std::map<std::string, unsigned long> types = {};  // of rgpu_TYPE
    std::optional<uint32_t> uid = {};                 // its user; nothing: squeue did not say
    // Its prolog has ended, and its epilog has not begun.
    bool runs() const { return state == "RUNNING" || state == "SUSPENDED"; }
    // What scontrol requeues and changes: of a heterogeneous job the leader.
    std::string whole() const { return name.substr(0, name.find('+')); }
};
// What squeue -O is to print for parse_runs().
inline constexpr const char *kRunFormat =
    "JobID:|,JobArrayID:|,State:|,RestartCnt:|,Licenses:|,UserID:|,";
std::vector<JobRun> parse_runs(std::string_view printed);

// Whether the lease is of that job, in whichever run. Anybody can lease in the name of a job that
// is none of his: such a lease is not.
bool is_of_job(const pool::Lease &lease, const JobRun &run);
// ... of the present run, or does not say of which.
bool is_of_run(const pool::Lease &lease, const JobRun &run);

// A lease of a job, by name.
struct LeaseOf {
    std::string server, lease, job;
};
// Leases of a run before the present one: their server was away when that ended. The servers were
// asked before Slurm was.
std::vector<LeaseOf> stale_leases(const std::vector<JobRun> &runs, const pool::Inventories &pool);

// Leases with a term ([rgpud] max_term) of the present runs: who else would renew them?
std::vector<LeaseOf> leases_to_renew(const std::vector<JobRun> &runs,
                                     const pool::Inventories &pool);

// Running jobs that have paid for more than the servers that answer have of them. The servers were
// asked after Slurm was.
std::vector<JobRun> runs_that_miss(const std::vector<JobRun> &runs, const pool::Inventories &pool);

}  // namespace rgpu::slurm
