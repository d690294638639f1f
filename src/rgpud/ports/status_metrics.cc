// SPDX-License-Identifier: Apache-2.0
#include "rgpud/ports/status_metrics.h"

#include <algorithm>
#include <string>

#include "share/protocol.h"
#include "util/version.h"

namespace rgpu::serverd {
namespace {

// A lease's id names nobody, and its first digits are enough to join by.
std::string label_of(const std::string &lease) { return lease.substr(0, 8); }

void add_server(MetricFamilies &f, const Service::Status &s)
{
    f.gauge("rgpu_build_info", "Which rgpud this is, and the release of the driver it uses",
            {{"version", RGPU_VERSION}, {"commit", commit()}, {"driver", s.driver}}, 1);
    f.gauge("rgpu_gpus", "GPUs of this server", {}, s.count.gpus);
    f.gauge("rgpu_gpus_free", "What nobody holds, in GPUs", {},
            static_cast<double>(s.count.share_free) / kWholeGpu);
    f.gauge("rgpu_offers", "Offers that hold GPUs now", {}, static_cast<double>(s.count.offers));
    f.gauge("rgpu_leases", "Leases now", {}, static_cast<double>(s.count.leases));
    f.gauge("rgpu_workers", "Worker processes now", {}, s.count.workers);
    f.counter("rgpu_leases_granted_total", "Leases granted since start", {},
              static_cast<double>(s.count.leases_granted));
    f.counter("rgpu_workers_started_total", "Workers started since start", {},
              static_cast<double>(s.count.workers_started));
    if (s.leases_without_job >= 0)
        f.gauge("rgpu_leases_without_job", "Leases whose job Slurm did not know when last asked",
                {}, s.leases_without_job);
    if (s.disk_all) {
        f.gauge("rgpu_state_disk_free_bytes", "Free space where state_dir is", {},
                static_cast<double>(s.disk_free));
        f.gauge("rgpu_state_disk_bytes", "Size of the file system where state_dir is", {},
                static_cast<double>(s.disk_all));
    }
}

void add_health(MetricFamilies &f, const Service::Status &s)
{
    for (const auto &[verdict, number] : s.count.checks)
        f.gauge("rgpu_health_checks", "Health checks of this host by how they ended",
                {{"verdict", verdict}}, number);
    if (s.health_age_s >= 0)
        f.gauge("rgpu_health_age_seconds", "Since health was last looked at", {}, s.health_age_s);
    for (const pool::Finding &finding : s.findings)
        if (finding.verdict == pool::Verdict::marginal || finding.verdict == pool::Verdict::fatal)
            f.gauge("rgpu_health_finding", "Health checks that did not pass, each 1",
                    {{"check", finding.check},
                     {"of", finding.of},
                     {"verdict", pool::name(finding.verdict)}},
                    1);
}

// 0: all passed; 1: the worst is MARGINAL; 2: it is FATAL.
int health_of(const pool::GpuState &gpu, const std::vector<pool::Finding> &findings)
{
    int worst = 0;
    for (const pool::Finding &finding : findings)
        if (finding.of == "GPU " + std::to_string(gpu.index))
            worst = std::max(worst, finding.verdict == pool::Verdict::fatal      ? 2
                                    : finding.verdict == pool::Verdict::marginal ? 1
                                                                                 : 0);
    return worst;
}

void add_gpu(MetricFamilies &f, const Service::Status &s, const pool::GpuState &gpu)
{
    const Labels labels = {{"gpu", gpu.uuid}};
    f.gauge("rgpu_gpu_info", "Which GPU has this UUID",
            {{"gpu", gpu.uuid},
             {"name", gpu.name},
             {"index", std::to_string(gpu.index)},
             {"pci", gpu.pci},
             {"compute_capability", gpu.compute_capability}},
            1);
    f.gauge("rgpu_gpu_share_free", "Part of the GPU that nobody holds", labels,
            static_cast<double>(gpu.free_share) / kWholeGpu);
    f.gauge("rgpu_gpu_memory_bytes", "Memory of the GPU", labels, static_cast<double>(gpu.memory));
    f.gauge("rgpu_gpu_memory_free_bytes", "Memory that no lease holds", labels,
            static_cast<double>(gpu.free_memory));
    f.gauge("rgpu_gpu_drained", "1: it is drained, and nobody gets it", labels,
            gpu.drained.empty() ? 0 : 1);
    if (s.health_age_s >= 0)
        f.gauge("rgpu_gpu_health", "0: its health checks passed; 1: one is MARGINAL; 2: FATAL",
                labels, health_of(gpu, s.findings));
    if (const auto energy = s.energy.find(gpu.uuid); energy != s.energy.end())
        f.counter("rgpu_gpu_energy_joules_total", "What it has used since its driver was loaded",
                  labels, energy->second);
    auto gauge = s.gauges.find(gpu.uuid);
    if (gauge == s.gauges.end()) return;
    if (gauge->second.temperature >= 0)
        f.gauge("rgpu_gpu_temperature_celsius", "Its temperature at the last look at health",
                labels, gauge->second.temperature);
    if (gauge->second.power >= 0)
        f.gauge("rgpu_gpu_power_watts", "What it drew at the last look at health", labels,
                gauge->second.power / 1000.0);
}

void add_lease(MetricFamilies &f, const pool::Lease &lease, bool names)
{
    const Labels labels = {{"lease", label_of(lease.id)}};
    Labels info = labels;
    if (names) {
        const pool::Owner &owner = lease.owner;
        info["user"] = owner.user;
        info["slurm_job"] = owner.job;
        info["account"] = owner.account;
        info["qos"] = owner.qos;
        info["node"] = owner.job.empty() ? owner.host : owner.node;
    }
    f.gauge("rgpu_lease_info", "Whose lease has this number ([rgpud] metrics_names)", info, 1);
    f.gauge("rgpu_lease_granted_timestamp_seconds", "When it was granted", labels,
            static_cast<double>(lease.granted_at));
    f.gauge("rgpu_lease_workers", "Its worker processes: one waits for the next program", labels,
            lease.workers);
    for (const pool::Portion &portion : lease.gpus) {
        Labels of = labels;
        of["gpu"] = portion.uuid;
        f.gauge("rgpu_lease_share", "Part of the GPU that the lease holds", of,
                static_cast<double>(portion.share) / kWholeGpu);
        f.gauge("rgpu_lease_memory_bytes", "Memory of the GPU that the lease holds", of,
                static_cast<double>(portion.memory));
    }
}

void add_tenant(MetricFamilies &f, const std::string &gpu, const share::TenantView &t)
{
    const Labels labels = {{"gpu", gpu}, {"lease", label_of(share::text_of(t.lease))}};
    f.gauge("rgpu_share_least", "Part of the GPU's time that the tenant is promised", labels,
            t.terms.least / 100.0);
    f.gauge("rgpu_share_most", "Part of the GPU's time that the tenant may have", labels,
            t.terms.most / 100.0);
    f.gauge("rgpu_share_weight", "Weight of the QOS of the tenant's job", labels,
            t.terms.weight / 100.0);
    f.gauge("rgpu_share_due", "Part that it is due among those who want it now", labels, t.due);
    const std::pair<const char *, double> windows[] = {
        {"1s", t.given_1s}, {"10s", t.given_10s}, {"1m", t.given_1min}};
    for (auto [window, given] : windows) {
        Labels with = labels;
        with["window"] = window;
        f.gauge("rgpu_share_given", "Part of the GPU's time that it was given in the last window",
                with, given);
    }
    f.gauge("rgpu_share_owed_seconds", "GPU time owed to it, or (below 0) by it", labels,
            t.owed_seconds);
    f.gauge("rgpu_tenant_memory_bytes", "Memory of the GPU that it uses", labels,
            static_cast<double>(t.memory));
    f.gauge("rgpu_tenant_longest_kernel_seconds", "The longest kernel seen", labels, t.longest_s);
    f.gauge("rgpu_tenant_running_kernel_seconds", "How long what runs now has run", labels,
            t.running_s);
    f.counter("rgpu_tenant_gpu_seconds_total", "GPU time that it was given", labels,
              t.given_seconds);
    f.counter("rgpu_tenant_turns_total", "Times that it got the GPU", labels,
              static_cast<double>(t.turns));
    f.counter("rgpu_tenant_launches_total", "Kernels, graphs and fills that have ended", labels,
              static_cast<double>(t.launches));
    f.counter("rgpu_tenant_bytes_total", "Bytes copied between the host and the GPU", labels,
              static_cast<double>(t.bytes));
}

}  // namespace

void add_status(MetricFamilies &families, const Service::Status &status, bool names)
{
    add_server(families, status);
    add_health(families, status);
    for (const pool::GpuState &gpu : status.gpus) add_gpu(families, status, gpu);
    for (const pool::Lease &lease : status.leases) add_lease(families, lease, names);
}

void add_tenants(MetricFamilies &families, const std::vector<Boards::Gpu> &boards)
{
    for (const Boards::Gpu &gpu : boards) {
        double used = 0, memory = 0;
        for (const share::TenantView &tenant : gpu.tenants) {
            add_tenant(families, gpu.uuid, tenant);
            used += tenant.given_1min;
            memory += static_cast<double>(tenant.memory);
        }
        families.gauge("rgpu_gpu_used_ratio", "Part of the last minute that tenants were given",
                       {{"gpu", gpu.uuid}}, used);
        families.gauge("rgpu_gpu_memory_used_bytes", "Memory that tenants use", {{"gpu", gpu.uuid}},
                       memory);
    }
}

}  // namespace rgpu::serverd
