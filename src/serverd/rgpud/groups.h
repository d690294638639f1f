// The cgroups of leases: what the workers of each may take of the host follows from the lease.
//
// Under Service's lock. Groups outlive rgpud, as workers do.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "pool/messages.h"
#include "serverd/rgpud/process.h"
#include "spawner/cgroup.h"
#include "util/config.h"

namespace rgpu::serverd {

// For a lease that has so many workers.
spawner::Limits limits_of(const RgpudConfig &config, const pool::Lease &lease, int workers);

class Groups {
public:
    explicit Groups(const RgpudConfig &config);
    ~Groups();
    Groups(const Groups &) = delete;

    // What an rgpud before this one left: all but those of these leases end.
    void end_all_but(const std::set<std::string> &leases);
    // Makes `launch` one of the lease's, which has so many workers with it. The doors are open as long as what is returned is kept.
    Result<std::vector<Fd>> admit(const pool::Lease &lease, int workers, Launch &launch);
    // Ends what is left of the lease's processes.
    void end(const std::string &lease);
    // Removes the groups of those that have ended. False: processes are still about to.
    bool remove_ended();

private:
    const RgpudConfig &config_;
    spawner::CgroupBase base_;
    std::set<std::string> ended_;  // groups
};

}  // namespace rgpu::serverd
