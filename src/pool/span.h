// GPUs of several servers for one program: which offers a request takes, and which leases belong together. Pure functions.
#pragma once

#include <vector>

#include "pool/messages.h"

namespace rgpu::pool {

// So many GPUs of an offer.
struct Part {
    size_t offer = 0;  // its position
    int gpus = 0;
    bool operator==(const Part &) const = default;
};

// What to accept of offers with answer now for so many GPUs: the best that has all of them; else of the fewest servers, and among as
// few those that leave the least of what they offered. In the order of the offers; empty: together they have too few.
std::vector<Part> parts_for(int gpus, const std::vector<Offer> &offers);

// Of a job's leases on a node those that it goes on with: of the first request of which all are there. A lease that is of no span is
// a request's only one. Empty: of none all are there.
std::vector<Grant> whole_request(const std::vector<Grant> &grants);

}  // namespace rgpu::pool
