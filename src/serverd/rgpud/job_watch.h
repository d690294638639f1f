// Asks Slurm which of the jobs that hold leases here still exist, and ends the leases of those that do not.
//
// EpilogSlurmctld gives a job's GPUs back; where it never ran (the controller died, no server answered) this does.
// All jobs are asked for at once, at most every [rgpud] slurm_check, and only while one holds a lease. A job
// is gone when two questions in a row say so; where Slurm gives no answer nothing is concluded.
#pragma once

#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "serverd/rgpud/service.h"

namespace rgpu::serverd {

class JobWatch {
public:
    // Both must outlive it.
    JobWatch(const RgpudConfig &config, Service &service) : config_(config), service_(service) {}
    ~JobWatch() { stop(); }

    // Does nothing where [rgpud] squeue is not there.
    void start();
    void stop();

    // The jobs that what squeue printed (id and state on each line) says exist.
    static std::set<std::string> alive(const std::string &printed);

private:
    void watch();
    void look(const std::set<std::string> &jobs);

    const RgpudConfig &config_;
    Service &service_;
    std::set<std::string> missed_;  // not there the last time
    std::thread thread_;
    std::mutex mutex_;
    std::condition_variable wake_;
    bool ending_ = false;
};

}  // namespace rgpu::serverd
