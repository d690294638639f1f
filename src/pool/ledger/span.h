// SPDX-License-Identifier: Apache-2.0
// GPUs of several servers for one program: which offers a request takes, and which leases belong
// together. Pure functions.
#pragma once

#include <vector>

#include "pool/messages/messages.h"

namespace rgpu::pool {

// What a server could give now, never more than is wanted.
struct Choice {
    int gpus = 0;
    Fit fit;
};

// So many GPUs of a choice.
struct Part {
    size_t choice = 0;  // its position
    int gpus = 0;
    bool operator==(const Part &) const = default;
};

// What to take for so many GPUs: the best choice that has all of them; else those of the fewest
// servers, and among as few those that leave the least of what they could give. In the order of the
// choices; empty: together they have too few.
std::vector<Part> parts_for(int gpus, const std::vector<Choice> &choices);

// Of a job's leases on a node those that it goes on with: of the first request of which all are
// there. A lease that is of no span is a request's only one. Empty: of none all are there.
std::vector<Grant> whole_request(const std::vector<Grant> &grants);

}  // namespace rgpu::pool
