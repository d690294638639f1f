// SPDX-License-Identifier: Apache-2.0
// How this host's GPUs lie: to each other, to the network card that clients come over, and to the
// processors (hwloc).
#pragma once

#include <string>
#include <vector>

#include "pool/ledger/placement.h"
#include "pool/messages/messages.h"
#include "rgpud/host/driver.h"

namespace rgpu::serverd {

struct Topology {
    std::string card;                            // "" where none is known
    pool::Distances distances;                   // as placement wants them; empty: nothing is known
    std::vector<std::vector<pool::Link>> links;  // [a][b]; [a][a] to the card
    struct Gpu {
        int numa = -1;          // -1: unknown
        std::vector<int> cpus;  // near it; empty: all are as near
    };
    std::vector<Gpu> gpus;  // in the inventory's order

    // The processors near any of these GPUs (positions in `gpus`); empty: all will do.
    std::vector<int> cpus_of(const std::vector<size_t> &chosen) const;
};

// `card` is the interface's name; empty: that of the default route. nvlink[a][b]: NVLink joins GPUs
// a and b. Software GPUs lie nowhere, unless HWLOC_XMLFILE makes up a host for them. Reads the
// system (or that file), some 50 ms.
Topology look_at_topology(const Driver &driver, const std::string &card,
                          const std::vector<std::vector<int>> &nvlink);

// The message that `rgpu topo` shows.
pool::Topology describe(const Topology &topology, const std::string &server,
                        const std::vector<pool::GpuState> &gpus);

}  // namespace rgpu::serverd
