// SPDX-License-Identifier: Apache-2.0
// Where Slurm and the pool say different things of the same jobs: the comparisons of rgpu slurm
// check, and what they read of squeue and scontrol. Pure functions.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "pool/client/client.h"
#include "slurm/jobs/missing.h"

namespace rgpu::slurm {

// A job that Slurm has started and not yet forgotten.
struct ActiveJob {
    std::string id;
    std::string name;                                 // "17", "14_3", "22+1"
    std::string state;                                // RUNNING, CONFIGURING, COMPLETING, ...
    std::string nodes;                                // as Slurm writes lists
    unsigned long licences = 0;                       // of rgpu
    std::map<std::string, unsigned long> types = {};  // of rgpu_TYPE
};

// What squeue is to print for parse_jobs().
inline constexpr const char *kJobFormat = "%A|%i|%T|%N|%W";
std::vector<ActiveJob> parse_jobs(std::string_view printed);

// One thing that is not as it should be.
struct Disagreement {
    std::string check;  // "job without lease", "lease without job", ...
    std::string of;     // what it is about: "job 17", "node cn2"
    std::string found;  // a sentence
    std::string cure;   // what to do
    bool operator==(const Disagreement &) const = default;
};

// Jobs and leases, one by one. Jobs that are just being started or ended have the right to have no
// lease. Of servers that do not answer nothing is known: then no job is said to have no lease.
std::vector<Disagreement> compare_jobs(const std::vector<ActiveJob> &jobs,
                                       const pool::Inventories &pool);

// The licence's total against the pool, what is in use against the jobs' own, and the reservation
// against what is missing. `reserved` is the licences of the reservation `name`, which rgpu slurm
// sync keeps; without a name none is kept. With a `type` all of it is about the licences of that
// type.
std::vector<Disagreement> compare_licences(const Licences &licences,
                                           const std::vector<ActiveJob> &jobs,
                                           const pool::Inventories &pool, const Snapshot *snapshot,
                                           const std::string &name, unsigned long reserved,
                                           const std::string &type = {});

// The snapshot that job_submit reads, against the servers.
std::vector<Disagreement> compare_snapshot(const Snapshot *snapshot, const pool::Inventories &pool);

// `scontrol show config`: what of rgpu's lines is not there.
std::vector<Disagreement> compare_config(std::string_view shown);

// Of `scontrol -o show node`.
std::vector<std::string> node_names(std::string_view shown);

// `scontrol -o show node`: nodes that differ in their GRES rgpu, and those on which gres.conf does
// not fit slurm.conf.
std::vector<Disagreement> compare_nodes(std::string_view shown);

}  // namespace rgpu::slurm
