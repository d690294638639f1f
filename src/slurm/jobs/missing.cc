// SPDX-License-Identifier: Apache-2.0
#include "slurm/jobs/missing.h"

#include <algorithm>

#include "slurm/terms/filters.h"
#include "slurm/terms/number.h"

namespace rgpu::slurm {
namespace {

// The value of " NAME=" in a line, up to the next space; empty where there is none.
std::string_view value_of(std::string_view line, std::string_view name)
{
    for (size_t at = 0; (at = line.find(name, at)) != line.npos; at += name.size()) {
        if ((at != 0 && line[at - 1] != ' ') || line.substr(at + name.size(), 1) != "=") continue;
        std::string_view value = line.substr(at + name.size() + 1);
        return value.substr(0, value.find_first_of(" \n"));
    }
    return {};
}

// Calls see(line) until it returns true.
template <class See> void each_line(std::string_view text, See &&see)
{
    while (!text.empty()) {
        std::string_view line = text.substr(0, text.find('\n'));
        if (see(line)) return;
        text.remove_prefix(std::min(line.size() + 1, text.size()));
    }
}

// What Slurm's jobs have paid for of a GPU. A share that begins at 0 costs one licence
// (slurm/terms/licences.h).
unsigned long held_by_jobs(const pool::Inventory &server, const std::string &uuid,
                           const std::set<std::string> *active)
{
    unsigned long sum = 0;
    for (const pool::Lease &lease : server.leases)
        for (const pool::Portion &portion : lease.gpus)
            if (!lease.owner.job.empty() && portion.uuid == uuid &&
                (!active || active->count(lease.owner.job)))
                sum += licences_for(1, static_cast<unsigned>(portion.share), 1);
    return sum;
}

}  // namespace

unsigned long paid(const pool::Lease &lease)
{
    unsigned long sum = 0;
    for (const pool::Portion &portion : lease.gpus)
        sum += licences_for(1, static_cast<unsigned>(portion.share), 1);
    return sum;
}

void add_types(const pool::Lease &lease, const std::vector<std::string> &types,
               std::map<std::string, unsigned long> &to)
{
    for (const pool::Portion &portion : lease.gpus)
        for (const std::string &type : types)
            if (is_of_type(portion.name, type))
                to[type] += licences_for(1, static_cast<unsigned>(portion.share), 1);
}

std::map<std::string, Licences> parse_type_licences(std::string_view shown)
{
    std::map<std::string, Licences> out;
    each_line(shown, [&](std::string_view line) {
        for (const std::string &type : types_sold(value_of(line, "LicenseName")))
            out[type] = {number_of(value_of(line, "Total")), number_of(value_of(line, "Used"))};
        return false;
    });
    return out;
}

std::optional<Licences> parse_licences(std::string_view shown)
{
    std::optional<Licences> found;
    each_line(shown, [&](std::string_view line) {
        if (value_of(line, "LicenseName") != "rgpu") return false;
        found = Licences{number_of(value_of(line, "Total")), number_of(value_of(line, "Used"))};
        return true;
    });
    return found;
}

std::optional<OwnLicences> parse_reserved(std::string_view shown, std::string_view name)
{
    std::optional<OwnLicences> found;
    each_line(shown, [&](std::string_view line) {
        if (value_of(line, "ReservationName") != name) return false;
        found = own_licences(value_of(line, "Licenses"));
        return true;
    });
    return found;
}

unsigned long missing_licences(const pool::Inventories &pool, const Snapshot *before,
                               const Licences &licences, const std::set<std::string> *active,
                               const std::string &type)
{
    unsigned long there = 0, held = 0, away = 0;
    for (const auto &told : pool) {
        if (!told.answer) {
            for (size_t i = 0; before && i < before->servers.size(); ++i)
                if (before->servers[i].name == told.server)
                    away += gpus_of_type(before->servers[i], type) *
                            static_cast<unsigned long>(kWholeGpu);
            continue;
        }
        for (const pool::GpuState &gpu : told.answer->gpus) {
            if (!is_of_type(gpu.name, type)) continue;
            unsigned long of_jobs = held_by_jobs(*told.answer, gpu.uuid, active);
            auto free = static_cast<unsigned long>(gpu.drained.empty() ? gpu.free_share : 0);
            there += std::min<unsigned long>(of_jobs + free,
                                             std::max<unsigned long>(of_jobs, kWholeGpu));
            held += of_jobs;
        }
    }
    // Licences in use for which no lease was seen are those of jobs on servers that do not answer.
    unsigned long unseen = licences.used > held ? licences.used - held : 0;
    there += std::min(away, unseen);
    return licences.total > there ? licences.total - there : 0;
}

}  // namespace rgpu::slurm
