// SPDX-License-Identifier: Apache-2.0
#include "slurm/jobs/idle_jobs.h"

#include <algorithm>
#include <map>

#include "util/format.h"
#include "util/next_token.h"

namespace rgpu::slurm {
namespace {

constexpr std::string_view kFirst = "rgpu-idle 1\n";

struct Told {
    unsigned long hundredths = 0;
    int gpus = 0;
    double idle_s = 0;
};

// "31m": in whole minutes, or seconds where it is less.
std::string for_people(double seconds)
{
    const auto whole = static_cast<int64_t>(seconds);
    return format_duration(std::chrono::seconds(whole < 120 ? whole : whole / 60 * 60));
}

std::string its_gpus(int gpus)
{
    return gpus == 1 ? "its GPU" : "its " + counted(static_cast<size_t>(gpus), "GPU");
}

}  // namespace

std::vector<IdleJob> idle_jobs(const std::vector<JobRun> &runs,
                               const std::vector<pool::Told<pool::Usages>> &usages, double least_s)
{
    std::map<std::string, Told> by_job;
    for (const auto &server : usages)
        for (size_t i = 0; server.answer && i < server.answer->leases.size(); ++i) {
            const pool::LeaseUsage &usage = server.answer->leases[i];
            if (usage.owner.job.empty() || usage.ended_at) continue;
            auto [told, first] = by_job.try_emplace(usage.owner.job);
            Told &job = told->second;
            job.idle_s = first ? usage.idle_s : std::min(job.idle_s, usage.idle_s);
            job.gpus += static_cast<int>(usage.gpus.size());
            // What Slurm sells at least for a GPU.
            for (const pool::GpuUsage &gpu : usage.gpus)
                job.hundredths += static_cast<unsigned long>(std::max(gpu.share, 1));
        }
    std::vector<IdleJob> out;
    for (const JobRun &run : runs)
        if (auto told = by_job.find(run.id); run.runs() && told != by_job.end() &&
                                             told->second.hundredths >= run.licences &&
                                             told->second.idle_s >= least_s)
            out.push_back({run, told->second.gpus, told->second.idle_s});
    return out;
}

Milliseconds idle_from(const PoolConfig &config)
{
    return config.idle_warn.count() ? config.idle_warn : config.idle_end;
}

IdleFate idle_fate(const PoolConfig &config, double idle_s, bool warned)
{
    const auto reached = [&](Milliseconds limit) {
        return limit.count() && idle_s * 1000 >= static_cast<double>(limit.count());
    };
    if (warned) return reached(config.idle_end) ? IdleFate::end : IdleFate::leave;
    return reached(idle_from(config)) || reached(config.idle_end) ? IdleFate::warn
                                                                  : IdleFate::leave;
}

std::string idle_warning(const PoolConfig &config, const IdleJob &job)
{
    std::string out = "job " + job.run.whole() + " has not used " + its_gpus(job.gpus) + " for " +
                      for_people(job.idle_s);
    if (!config.idle_end.count()) return out + ", and others wait for what nobody uses";
    return out + "; after " + format_duration(config.idle_end) + " without use it is " +
           (config.idle_action == "cancel" ? "cancelled" : "requeued and held, or cancelled");
}

std::string idle_note(const IdleJob &job, const std::string &done)
{
    return "it did not use " + its_gpus(job.gpus) + " for " + for_people(job.idle_s) + ": " + done;
}

std::string run_key(const JobRun &run) { return run.id + " " + std::to_string(run.restarts); }

std::string format_warned(const std::set<std::string> &warned)
{
    std::string out(kFirst);
    for (const std::string &key : warned) out += key + "\n";
    return out;
}

std::set<std::string> parse_warned(std::string_view text)
{
    std::set<std::string> out;
    if (!text.starts_with(kFirst)) return out;
    for (text.remove_prefix(kFirst.size()); !text.empty();)
        out.insert(std::string(next_token(text, "\n")));
    return out;
}

}  // namespace rgpu::slurm
