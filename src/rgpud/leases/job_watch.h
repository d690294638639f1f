// SPDX-License-Identifier: Apache-2.0
// Asks Slurm which of the jobs that hold leases here still exist, and ends the leases of those that
// do not.
//
// EpilogSlurmctld gives a job's GPUs back; where it never ran (the controller died, no server
// answered) this does. All jobs are asked for at once, at most every [rgpud] slurm_check, and only
// while one holds a lease. A job is gone when two questions in a row say so; where Slurm gives no
// answer nothing is concluded.
#pragma once

#include <set>
#include <string>

#include "rgpud/leases/service.h"
#include "util/periodic.h"

namespace rgpu::serverd {

class JobWatch {
public:
    // Both must outlive it.
    JobWatch(const RgpudConfig &config, Service &service) : config_(config), service_(service) {}

    // Does nothing where [rgpud] squeue is not there.
    void start();
    void stop() { looking_.stop(); }

    // The jobs that what squeue printed (id and state on each line) says exist.
    static std::set<std::string> alive(const std::string &printed);

private:
    void look();

    const RgpudConfig &config_;
    Service &service_;
    std::set<std::string> missed_;  // not there the last time
    Periodic looking_;              // last: it ends before what it looks at
};

}  // namespace rgpu::serverd
