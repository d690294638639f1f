// SPDX-License-Identifier: Apache-2.0
#include "web/data/lives.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "pool/messages/fields.h"

namespace rgpu::web {
namespace {

using pool::Json;

constexpr int64_t kFirstStep = 1000;  // ms

double tenth(double value) { return std::round(10 * value) / 10; }

Json json_of(const Sample &s)
{
    return {s.time_ms,        tenth(s.use),           tenth(s.blocked),        tenth(s.throttled),
            tenth(s.network), std::round(s.in_per_s), std::round(s.out_per_s), s.memory};
}

// Two that follow each other as one, which weighs them by their lengths.
Sample together(const Sample &a, double a_ms, const Sample &b, double b_ms)
{
    const double all = std::max(a_ms + b_ms, 1.0);
    const auto mean = [&](double x, double y) { return (x * a_ms + y * b_ms) / all; };
    Sample out;
    out.time_ms = b.time_ms;
    out.use = mean(a.use, b.use);
    out.blocked = mean(a.blocked, b.blocked);
    out.throttled = mean(a.throttled, b.throttled);
    out.network = mean(a.network, b.network);
    out.in_per_s = mean(a.in_per_s, b.in_per_s);
    out.out_per_s = mean(a.out_per_s, b.out_per_s);
    out.memory = std::max(a.memory, b.memory);
    return out;
}

}  // namespace

std::string Lives::job_of(const pool::LeaseUsage &usage)
{
    return usage.owner.job.empty() ? usage.lease.substr(0, 8) : usage.owner.job;
}

void Lives::add(Life &life, Sample sample, int64_t length_ms)
{
    life.open = together(life.open, static_cast<double>(life.open_ms), sample,
                         static_cast<double>(length_ms));
    life.open_ms += length_ms;
    if (life.open_ms < std::max(life.least_step_ms, kFirstStep)) return;
    life.samples.push_back(life.open);
    life.open = {};
    life.open_ms = 0;
    if (life.samples.size() < kSamples) return;
    // Pairs become one, and from now on each stands for twice the time.
    std::vector<Sample> halved;
    for (size_t i = 0; i + 1 < life.samples.size(); i += 2)
        halved.push_back(together(life.samples[i], 1, life.samples[i + 1], 1));
    const int64_t whole = halved.back().time_ms - halved.front().time_ms;
    life.least_step_ms = whole / static_cast<int64_t>(halved.size() - 1);
    life.samples = std::move(halved);
}

Lives::Counted Lives::counted(const pool::LeaseUsage &lease)
{
    Counted sum;
    sum.network = lease.network_s;
    sum.in = static_cast<double>(lease.bytes_in);
    sum.out = static_cast<double>(lease.bytes_out);
    for (const pool::GpuUsage &gpu : lease.gpus) {
        sum.busy += gpu.busy_s;
        sum.blocked += gpu.blocked_s;
        sum.throttled += gpu.throttled_s;
    }
    return sum;
}

void Lives::Counted::grow(const Counted &from, const Counted &to)
{
    busy += std::max(0.0, to.busy - from.busy);
    blocked += std::max(0.0, to.blocked - from.blocked);
    throttled += std::max(0.0, to.throttled - from.throttled);
    network += std::max(0.0, to.network - from.network);
    in += std::max(0.0, to.in - from.in);
    out += std::max(0.0, to.out - from.out);
}

void Lives::look_at(Life &life, int64_t time_ms, const Leases &leases, const MemoryUsed &memory)
{
    life.seen = true;
    life.ended_ms = 0;
    life.owner = leases.front()->owner;
    life.gpus = 0, life.memory = 0;
    Sample sample;
    Counted grown;
    std::map<std::string, Counted> now;
    for (const pool::LeaseUsage *lease : leases) {
        now[lease->lease] = counted(*lease);
        if (const auto was = life.before.find(lease->lease); was != life.before.end())
            grown.grow(was->second, now[lease->lease]);
        if (const auto used = memory.find(lease->lease); used != memory.end())
            sample.memory += static_cast<double>(used->second);
        if (life.since == 0 || lease->granted_at < life.since) life.since = lease->granted_at;
        life.gpus += lease->gpus.size();
        for (const pool::GpuUsage &gpu : lease->gpus) life.memory += gpu.memory;
    }
    const int64_t length = time_ms - life.looked_ms;
    if (life.looked_ms && length > 0) {
        const double seconds = static_cast<double>(length) / 1000,
                     gpus = static_cast<double>(std::max<size_t>(life.gpus, 1));
        const auto percent = [&](double spent, double of) {
            return std::clamp(100 * spent / seconds / of, 0.0, 100.0);
        };
        sample.time_ms = time_ms;
        sample.use = percent(grown.busy, gpus);
        sample.blocked = percent(grown.blocked, gpus);
        sample.throttled = percent(grown.throttled, gpus);
        sample.network = percent(grown.network, static_cast<double>(leases.size()));
        sample.in_per_s = grown.in / seconds;
        sample.out_per_s = grown.out / seconds;
        add(life, sample, length);
    }
    life.before = std::move(now);
    life.looked_ms = time_ms;
}

void Lives::look(int64_t time_ms, const std::vector<pool::LeaseUsage> &usages,
                 const MemoryUsed &memory)
{
    for (auto &[key, life] : lives_) life.seen = false;
    std::map<Key, Leases> jobs;
    for (const pool::LeaseUsage &usage : usages)
        jobs[{job_of(usage), usage.owner.uid}].push_back(&usage);
    for (const auto &[key, leases] : jobs) look_at(lives_[key], time_ms, leases, memory);
    for (auto &[key, life] : lives_)
        if (!life.seen && !life.ended_ms) {
            life.ended_ms = time_ms;
            life.before.clear();
            life.looked_ms = 0;
        }
    forget_oldest();
}

void Lives::forget_oldest()
{
    const auto ended = [](const auto &entry) { return entry.second.ended_ms != 0; };
    auto count = static_cast<size_t>(std::count_if(lives_.begin(), lives_.end(), ended));
    for (; count > kEnded; --count) {
        auto oldest = lives_.end();
        for (auto at = lives_.begin(); at != lives_.end(); ++at)
            if (ended(*at) &&
                (oldest == lives_.end() || at->second.ended_ms < oldest->second.ended_ms))
                oldest = at;
        lives_.erase(oldest);
    }
}

const Lives::Life *Lives::find(const std::string &job, const Viewer &viewer) const
{
    const auto rank = [](const Life &l) { return std::tuple(!l.ended_ms, l.ended_ms, l.since); };
    const Life *found = nullptr;
    for (auto at = lives_.lower_bound({job, 0}); at != lives_.end() && at->first.first == job; ++at)
        if (viewer.sees(at->second.owner) && (!found || rank(*found) < rank(at->second)))
            found = &at->second;
    return found;
}

std::string Lives::json(const std::string &job, const Viewer &viewer) const
{
    const Life *const found = find(job, viewer);
    if (!found) return "";
    const Life &life = *found;
    Json samples = Json::array();
    for (const Sample &sample : life.samples) samples.push_back(json_of(sample));
    Json out = {{"job", job},
                {"user", name_of(life.owner)},
                {"slurm", !life.owner.job.empty()},
                {"since", life.since},
                {"gpus", life.gpus},
                {"memory", life.memory},
                {"samples", std::move(samples)}};
    if (life.ended_ms) out["ended"] = life.ended_ms / 1000;
    return pool::dump(out);
}

std::string Lives::last_json(const Viewer &viewer) const
{
    Json out = Json::object();
    for (const auto &[key, life] : lives_)
        if (!life.ended_ms && !life.samples.empty() && find(key.first, viewer) == &life)
            out[key.first] = json_of(life.samples.back());
    return pool::dump(out);
}

}  // namespace rgpu::web
