// SPDX-License-Identifier: Apache-2.0
// What a pool would do with a trace of requests: the placement of placement.h, and a clock that
// jumps.
//
// A trace is text, a line each, # begins a comment:
//   servers COUNT GPUS MEMORY                          COUNT servers of GPUS GPUs of MEMORY ("80G")
//   each request ARRIVAL GPUS SHARE MEMORY DURATION         seconds; SHARE is "100" (whole GPUs),
//   "50", "30-100"; MEMORY "0" or "8G"
// Who cannot be served at once waits, and whoever fits is served as soon as there is room, the
// longest waiting first: as clients that ask again and again (acquire.h). Nobody's place is kept
// free for a larger request.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pool/ledger/placement.h"
#include "util/result.h"

namespace rgpu::pool {

struct Trace {
    struct Servers {
        int count = 0, gpus = 0;
        uint64_t memory = 0;
    };
    struct Arrival {
        double at = 0, duration = 0;  // seconds
        Request request;
    };
    std::vector<Servers> servers;
    std::vector<Arrival> requests;  // in the order of their arrival
};

inline constexpr int kMostServers = 10000;
inline constexpr int64_t kMostSimulatedGpus = 1000000;
// Different forms of requests (GPUs, share, memory): servers are kept in order for each of them.
inline constexpr size_t kMostForms = 256;

// Fails with the line that is wrong.
Result<Trace> parse_trace(std::string_view text);

struct Simulated {
    Policy policy = Policy::best_fit;
    int servers = 0, gpus = 0;
    size_t requests = 0, never = 0, waited = 0;  // served in all; no server could; not at once
    size_t spanned = 0;                          // of those served: with GPUs of several servers
    double span = 0;                             // seconds from the first arrival to the last
    double utilisation = 0;                      // part of all GPU time in the span that was leased
    double wait_mean = 0, wait_p50 = 0, wait_p95 = 0,
           wait_max = 0;    // seconds, of all that were served
    double wait_large = 0;  // mean wait of the requests for the most GPUs
    // Of the free hundredths (mean over the span), the part on GPUs that are not wholly free.
    double broken = 0;
    // Of the time spent waiting in the span, the part in which the pool had enough free in all, on
    // several servers.
    double scattered = 0;
};

// With `spans` each request may have GPUs of several servers, where no one server has all (span.h).
Simulated simulate(const Trace &trace, Policy policy, bool spans = false);

}  // namespace rgpu::pool
