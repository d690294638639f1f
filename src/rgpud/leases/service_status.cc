// SPDX-License-Identifier: Apache-2.0
// What rgpud tells Prometheus of itself (ports/metrics.h).
#include <sys/statvfs.h>

#include <algorithm>
#include <chrono>

#include "rgpud/leases/service.h"

namespace rgpu::serverd {

void Service::set_gauges(std::map<std::string, Gauge> gauges)
{
    std::lock_guard lock(mutex_);
    gauges_ = std::move(gauges);
}

void Service::jobs_missing(std::set<std::string> jobs)
{
    std::lock_guard lock(mutex_);
    missing_ = std::move(jobs);
}

Service::Status Service::status()
{
    Status status;
    status.server = config_.name;
    status.driver = driver_.inventory.driver_release;
    status.count = count();
    struct statvfs disk;
    if (statvfs(config_.state_dir.c_str(), &disk) == 0) {
        status.disk_free = uint64_t{disk.f_bavail} * disk.f_frsize;
        status.disk_all = uint64_t{disk.f_blocks} * disk.f_frsize;
    }
    status.energy = energy_.counters();
    std::lock_guard lock(mutex_);
    status.leases = ledger_.leases({0, true}, {}, end_expired());
    for (pool::Lease &lease : status.leases) lease.workers = pool_.count(lease.id);
    status.gpus = ledger_.gpus();
    status.gauges = gauges_;
    status.findings = findings_;
    if (looked_at_ != kNever)
        status.health_age_s = std::chrono::duration<double>(now() - looked_at_).count();
    if (missing_)
        status.leases_without_job = static_cast<int>(std::count_if(
            status.leases.begin(), status.leases.end(),
            [&](const pool::Lease &lease) { return missing_->count(lease.owner.job); }));
    return status;
}

}  // namespace rgpu::serverd
