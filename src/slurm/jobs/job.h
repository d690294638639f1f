// SPDX-License-Identifier: Apache-2.0
// The job for which Slurm runs one of its scripts: what the script's environment says of it.
#pragma once

#include <string>
#include <vector>

#include "pool/messages/messages.h"
#include "slurm/terms/filters.h"
#include "util/result.h"

namespace rgpu::slurm {

struct Job {
    std::string id;
    uint32_t uid = 0;
    std::string user;
    std::string node;       // slurmd's name of this node; empty on the controller
    std::string node_list;  // as Slurm writes it
    unsigned nodes = 0;
    std::string all_licences;             // as Slurm writes them, on the controller only
    unsigned long licences = 0;           // of rgpu among them
    std::vector<std::string> types_paid;  // whose licences it took at submit
    bool ours = false;                    // it asked for GPUs of the pool
    std::string share, memory;            // --rgpu-share and --rgpu-mem as typed; empty without
    Filters filters;                      // of our other options
    bool span = false;                    // --rgpu-span
    std::string type;                     // of rgpu:TYPE:N; empty without
    unsigned most_nodes = 0;              // of a range of nodes; 0 without
    unsigned long each = 0;               // with most_nodes: the licences of one node
    // On the controller only, from Slurms that say it to their scripts.
    std::string qos, account;
    bool failed = false;  // it has ended with another status than 0; known to EpilogSlurmctld only
    int run = 0;          // how often Slurm has started it again; known on the controller only
    // What Slurm's commands call it: one task of an array ("14_3") may have the array's number, by
    // which they would mean all of them.
    std::string name;
    // What scontrol calls it where all that Slurm requeues together is meant: the leader of a
    // heterogeneous job, one task of an array ("14_3").
    std::string whole;
};

// Reads SLURM_JOB_ID and its like; ErrorKind::invalid where the script was not run by Slurm.
Result<Job> read_job();

// What to ask of the pool for one of the job's nodes. ErrorKind::invalid where the licences that
// the job holds do not pay for whole requests on each node.
Result<pool::Request> request_for(const Job &job, const std::string &node);

// Prints "rgpu: job 17: <text>" on stderr and to syslog, as Slurm keeps no output of its scripts.
void tell_of_job(const Job &job, const Error &error);

}  // namespace rgpu::slurm
