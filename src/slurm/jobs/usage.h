// SPDX-License-Identifier: Apache-2.0
// What a job used of the pool, as it stands in the job's record: summed up by the epilog, read by
// rgpu usage.
//
// It is JSON in the record's AdminComment, behind whatever stood there: {"rgpu": {"gpus": [{"name",
// "gpu_seconds", ...}], "servers":
// [...], "silent": [...]}}. sacctmgr makes a ` of every quotation mark, which is undone here.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pool/messages/messages.h"

namespace rgpu::slurm {

// Of one type of GPUs: all leases of the job together. Seconds, bytes.
struct TypeUsage {
    std::string name;
    double gpu_seconds = 0;        // held: a half for a second is a half
    double busy_seconds = 0;       // the job's work was on them
    double blocked_seconds = 0;    // launches waited for other tenants' turns
    double throttled_seconds = 0;  // launches waited as the job's own share was used up
    uint64_t memory_peak = 0;      // of the GPU of which it was most
    uint64_t launches = 0;
    uint64_t bytes_in = 0, bytes_out = 0;  // over the network, to the server and from it
    std::optional<double> joules = {};     // energy of the GPUs; nothing: no server tells it
};
// The one is added to the other, whose name stays.
void add(TypeUsage &to, const TypeUsage &one);

struct JobUsage {
    std::vector<TypeUsage> gpus;
    std::vector<std::string> servers;  // that had a lease
    std::vector<std::string> silent;   // that did not answer: what they know is missing
    bool empty() const { return gpus.empty() && silent.empty(); }
};

// Adds what a server told.
void add(JobUsage &to, const std::string &server, const std::vector<pool::LeaseUsage> &leases);

// The comment that says it, behind what a comment says already.
std::string to_comment(const JobUsage &usage, std::string_view before = {});
// Nothing where a comment does not say it.
std::optional<JobUsage> from_comment(std::string_view comment);

}  // namespace rgpu::slurm
