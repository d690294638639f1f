// SPDX-License-Identifier: Apache-2.0
// Divides what energy the GPUs use among the leases that have them, in proportion to the time that
// their work was on the GPU; where nobody's was, by what they hold. Energy of a GPU that nobody has
// is nobody's. The caller locks.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "pool/messages/messages.h"
#include "rgpud/host/boards.h"
#include "rgpud/host/energy_book.h"

namespace rgpu::serverd {

class EnergyDivision {
public:
    // The book must outlive it.
    explicit EnergyDivision(EnergyBook &book) : book_(book) {}

    // Whether a GPU of the lease has a counter.
    bool knows(const pool::Lease &lease) const;
    // GPU time that leases had, which counts for the next division.
    void add(const std::vector<Boards::Busy> &busy);
    // The lease gets its GPUs now: what they used before is not its.
    void begin(const pool::Lease &lease, Time now);
    // What each part of these leases used since the last time. They are those that had their GPUs
    // in all that time.
    struct Part {
        std::string lease;
        size_t gpu = 0;  // place in the lease
        double joules = 0;
    };
    std::vector<Part> divide(const std::vector<pool::Lease> &leases, Time now);

private:
    EnergyBook &book_;
    std::map<std::pair<std::string, std::string>, int64_t> busy_;  // by UUID and lease
};

}  // namespace rgpu::serverd
