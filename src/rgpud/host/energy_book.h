// SPDX-License-Identifier: Apache-2.0
// What energy the host's GPUs have used, and how it is divided among those who had them.
//
// NVML's counters are read once a second. Between two readings a GPU is taken to draw what it drew
// before, so that a lease's end waits for no reading; what that was too much or too little is made
// good with what follows. So the parts of all leases sum up to the counter.
//
// No I/O and no clock. Any thread may call.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "util/clock.h"
#include "util/units.h"

namespace rgpu::serverd {

class EnergyBook {
public:
    // The GPU's counter at that time. One that went back, or rose as no GPU can, begins anew.
    void sample(const std::string &uuid, Time at, uint64_t millijoules);
    // Joules that the GPU has used since the last call for it, until `at`; 0 where nothing is
    // known.
    double spend(const std::string &uuid, Time at);
    bool knows(const std::string &uuid) const;
    // The counters as they were read last, in joules, by UUID.
    std::map<std::string, double> counters() const;

    static constexpr double kMostWatts = 10'000;
    // For so long a GPU is taken to draw what it drew before.
    static constexpr Milliseconds kCarried{3000};

private:
    struct Gpu {
        Time at{};
        double counter = 0;  // joules
        double watts = 0;
        double spent = 0;  // up to this value of the counter spend() has told its joules
    };
    mutable std::mutex mutex_;
    std::map<std::string, Gpu> gpus_;
};

// A lease's use of a GPU in some span of time.
struct EnergyUse {
    int64_t busy = 0;  // nanoseconds that its work was on the GPU
    int share = 0;     // hundredths that it holds
};
// Joules for each, together all: by use, and where nobody used the GPU, by what each holds of it.
std::vector<double> divide_energy(double joules, const std::vector<EnergyUse> &uses);

}  // namespace rgpu::serverd
