// SPDX-License-Identifier: Apache-2.0
// Which GPUs of a server a request gets, and which server fits it best: pure functions.
//
// Best fit first: large holes stay whole for requests that need them. Then the GPUs that sit
// closest together, then the least loaded server.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "pool/messages/messages.h"

namespace rgpu::pool {

// What a server's driver says of itself.
struct DriverVersions {
    int cuda = 0;         // 0: unknown, and good enough
    std::string release;  // empty: unknown, and never good enough
};

// The GPU, which is used through this driver, is of those wanted.
bool fits_filter(const GpuState &gpu, const GpuFilter &filter, const DriverVersions &driver);

// distances[a][b]: how far GPU a is from GPU b of one server (smaller is closer, symmetric);
// [a][a]: how far from the network card. Empty: nothing is known. rgpud's topology.h fills it.
using Distances = std::vector<std::vector<int>>;

struct Placement {
    Answer answer = Answer::never;
    std::string reason;          // for later and never
    std::vector<size_t> chosen;  // positions in the vector given, ascending; of a request with a
                                 // span there may be fewer than wanted
    Fit fit;
    int fitting = 0;  // as Offer::fitting
};

// The memory that a request takes of this GPU.
uint64_t memory_of(const GpuState &gpu, const Request &request);

// What the pool does is best fit; the others are for comparison (simulate.h). They know no
// distances.
enum class Policy {
    best_fit,   // the GPUs and the server on which the request leaves least behind
    worst_fit,  // ... most: the emptiest
    first_fit,  // the first that will do
};
// "best-fit", "worst-fit", "first-fit".
const char *name(Policy policy);
std::optional<Policy> policy_named(std::string_view name);

Placement place(const std::vector<GpuState> &gpus, const Request &request,
                const Distances &distances = {}, const DriverVersions &driver = {},
                Policy policy = Policy::best_fit);

// The first should be taken rather than the second. Under best fit one on the host that asks goes
// before all others.
bool better(const Fit &a, const Fit &b, Policy policy = Policy::best_fit);

}  // namespace rgpu::pool
