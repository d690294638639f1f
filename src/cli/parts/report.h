// SPDX-License-Identifier: Apache-2.0
// What `rgpu report` says of a job: the sums of what its leases used, and what follows from them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pool/messages/messages.h"

namespace rgpu::cli {

// What one server says of a lease.
struct ReportedLease {
    std::string server;
    pool::LeaseUsage usage;
};

// Sums over all leases. Seconds, bytes.
struct Report {
    std::string job, user;             // empty: outside Slurm; the number of a user without a name
    int run = -1;                      // -1: not said
    bool ended = true;                 // no lease is held any more
    std::vector<std::string> servers;  // that had a lease
    std::vector<std::string> silent;   // that did not answer
    std::vector<std::string> names;    // of the types of GPUs
    int gpus = 0, unused_gpus = 0;     // unused: no kernel ran there
    double share = 1;                  // the mean part of each GPU that was leased
    double held_s = 0;                 // the longest lease
    double gpu_s = 0, busy_s = 0, blocked_s = 0, throttled_s = 0;
    // Of all time that programs had leases, and the part for which they waited for the network;
    // nothing: older servers do not tell.
    double lease_s = 0;
    std::optional<double> network_s;
    uint64_t round_trips = 0, launches = 0, bytes_in = 0, bytes_out = 0;
    uint64_t memory_peak = 0, memory = 0;  // of the GPU of which most was used; memory 0: not known
    std::optional<double> joules;          // energy of its GPUs; nothing: no server tells it
};

// Of the last run among the leases, at least one of which there is.
Report report_of(const std::vector<ReportedLease> &leases);

// What to do about it: a sentence each, the most important first; never none.
std::vector<std::string> verdict(const Report &report);

std::string report_text(const Report &report);
std::string report_json(const Report &report);

}  // namespace rgpu::cli
