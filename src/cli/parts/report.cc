// SPDX-License-Identifier: Apache-2.0
#include "cli/parts/report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "cli/parts/pool_view.h"
#include "cli/parts/table.h"
#include "util/format.h"
#include "util/units.h"

namespace rgpu::cli {
namespace {

// Parts of the time from which on something is worth a sentence.
constexpr double kMuch = 0.1, kIdle = 0.5, kVeryIdle = 0.9;
// Bytes for each second of waiting for the network: above it, it is the bytes that took the time.
constexpr double kBulk = 20e6;
// Below this a job has shown too little of itself.
constexpr double kShort = 1;

void insert(std::vector<std::string> &names, const std::string &name)
{
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

std::string joined(const std::vector<std::string> &names)
{
    std::string out;
    for (const std::string &name : names) out += (out.empty() ? "" : ", ") + name;
    return out;
}

std::string percent(double part)
{
    char text[32];
    snprintf(text, sizeof text, part >= 0.0005 && part < 0.01 ? "%.1f %%" : "%.0f %%", 100 * part);
    return text;
}

double part_of(double some, double all) { return all > 0 ? some / all : 0; }

void add(Report &to, const ReportedLease &one, double &shares)
{
    const pool::LeaseUsage &usage = one.usage;
    insert(to.servers, one.server);
    to.ended &= usage.ended_at != 0;
    to.held_s = std::max(to.held_s, usage.held_s);
    to.lease_s += usage.held_s;
    to.network_s = to.network_s.value_or(0) + usage.network_s;
    to.round_trips += usage.round_trips;
    to.bytes_in += usage.bytes_in;
    to.bytes_out += usage.bytes_out;
    for (const pool::GpuUsage &gpu : usage.gpus) {
        const double share = static_cast<double>(gpu.share) / kWholeGpu;
        insert(to.names, gpu.name);
        ++to.gpus;
        to.unused_gpus += gpu.launches == 0;
        shares += share;
        to.gpu_s += usage.held_s * share;
        to.busy_s += gpu.busy_s;
        to.blocked_s += gpu.blocked_s;
        to.throttled_s += gpu.throttled_s;
        to.launches += gpu.launches;
        if (gpu.energy_j) to.joules = to.joules.value_or(0) + *gpu.energy_j;
        if (to.memory == 0 || gpu.memory_peak > to.memory_peak) {
            to.memory_peak = gpu.memory_peak;
            to.memory = gpu.memory;
        }
    }
}

// In steps of five percent, with some room: what to ask for where so little was used.
int fitting_share(double busy)
{
    return std::clamp(5 * static_cast<int>(std::ceil(150 * busy / 5)), 5, 95);
}

std::string about_network(const Report &r, double part)
{
    const double bytes = static_cast<double>(r.bytes_in + r.bytes_out);
    const std::string begin = "blocked " + percent(part) + " of the time on the network, ";
    if (part_of(bytes, *r.network_s) > kBulk)
        return begin + "most of it by copies (" + human_size(r.bytes_in + r.bytes_out) +
               "): keep data on the GPU, and look at the link with rgpu bench";
    return begin + "most of it on small calls that wait for an answer (" +
           counted(r.round_trips, "round trip") +
           "): copy asynchronously and more at once, and synchronise less often";
}

}  // namespace

Report report_of(const std::vector<ReportedLease> &leases)
{
    Report report;
    for (const ReportedLease &one : leases) report.run = std::max(report.run, one.usage.owner.run);
    double shares = 0;
    for (const ReportedLease &one : leases) {
        if (one.usage.owner.run != report.run) continue;
        report.job = one.usage.owner.job;
        report.user = user_of(one.usage.owner);
        add(report, one, shares);
    }
    if (report.gpus) report.share = shares / report.gpus;
    return report;
}

std::vector<std::string> verdict(const Report &r)
{
    std::vector<std::string> out;
    const double busy = part_of(r.busy_s, r.gpu_s);
    if (r.launches == 0)
        return {"no kernel ran on its GPUs: was the program built for GPUs, and was "
                "CUDA_VISIBLE_DEVICES left alone? Without GPUs it would run as well"};
    if (r.lease_s < kShort) return {"it held its GPUs too briefly to say more"};
    if (r.unused_gpus)
        out.push_back(std::to_string(r.unused_gpus) + " of its " +
                      counted(static_cast<size_t>(r.gpus), "GPU") +
                      " ran no kernel: was CUDA_VISIBLE_DEVICES set? Ask for " +
                      std::to_string(r.gpus - r.unused_gpus) + " (--gres=rgpu:N)");
    if (const double network = r.network_s ? part_of(*r.network_s, r.lease_s) : 0; network >= kMuch)
        out.push_back(about_network(r, network));
    if (const double throttled = part_of(r.throttled_s, r.lease_s); throttled >= kMuch)
        out.push_back("held back for " + clock_of(r.throttled_s) +
                      " by its own ceiling: a range uses what others leave (--rgpu-share=" +
                      std::to_string(std::lround(100 * r.share)) + "-100)");
    if (const double blocked = part_of(r.blocked_s, r.lease_s); blocked >= kMuch)
        out.push_back("waited " + clock_of(r.blocked_s) +
                      " for other tenants of its GPUs: a larger least share waits less");
    if (busy < kIdle && r.share >= 1) {
        const std::string share = std::to_string(fitting_share(busy));
        out.push_back("GPU idle " + percent(1 - busy) + (busy < 1 - kVeryIdle ? ": " : ", ") +
                      "a share would do, and others could use the rest (--rgpu-share=" + share +
                      "-100)");
    } else if (busy < kIdle) {
        out.push_back("its share was used to " + percent(busy) + ": a smaller one would do");
    }
    if (out.empty())
        out.push_back("good: its GPUs worked " + percent(std::min(busy, 1.0)) + " of the time");
    return out;
}

std::string report_text(const Report &r)
{
    std::string out = r.job.empty() ? "this program" : "job " + r.job + " of " + r.user;
    out += ": " + counted(static_cast<size_t>(r.gpus), "GPU") + " of " + joined(r.servers) + " (" +
           joined(r.names) + "), held " + clock_of(r.held_s) + (r.ended ? "\n" : " until now\n");
    const auto of_leases = [&](double seconds) {
        return clock_of(seconds) + ", " + percent(part_of(seconds, r.lease_s));
    };
    std::vector<std::vector<std::string>> rows = {
        {"  GPU time held", clock_of(r.gpu_s)},
        {"  ... used", clock_of(r.busy_s) + ", " + percent(part_of(r.busy_s, r.gpu_s))},
        {"  waited for the network",
         r.network_s ? of_leases(*r.network_s) : "not known: an older server"},
        {"  waited for other tenants", of_leases(r.blocked_s)},
        {"  throttled by its own share", of_leases(r.throttled_s)},
        {"  memory of one GPU, at most",
         human_size(r.memory_peak) + (r.memory ? " of " + human_size(r.memory) : "")},
        {"  bytes to the GPUs, and back", human_size(r.bytes_in) + ", " + human_size(r.bytes_out)},
        {"  round trips", std::to_string(r.round_trips)},
        {"  launches", std::to_string(r.launches)}};
    if (r.joules) rows.push_back({"  energy of the GPUs", energy_text(*r.joules)});
    out += table(rows);
    if (!r.silent.empty())
        out += "  not all is known: no answer from " + joined(r.silent) + "; see rgpu list\n";
    for (const std::string &sentence : verdict(r)) out += "verdict: " + sentence + "\n";
    return out;
}

std::string report_json(const Report &r)
{
    const auto thousandths = [](double seconds) { return std::round(seconds * 1000) / 1000; };
    using Json = nlohmann::json;
    return Json{{"job", r.job},
                {"user", r.user},
                {"run", r.run},
                {"ended", r.ended},
                {"servers", r.servers},
                {"silent", r.silent},
                {"names", r.names},
                {"gpus", r.gpus},
                {"unused_gpus", r.unused_gpus},
                {"share", thousandths(r.share)},
                {"held_seconds", thousandths(r.held_s)},
                {"gpu_seconds", thousandths(r.gpu_s)},
                {"busy_seconds", thousandths(r.busy_s)},
                {"network_seconds", r.network_s ? Json(thousandths(*r.network_s)) : Json()},
                {"blocked_seconds", thousandths(r.blocked_s)},
                {"throttled_seconds", thousandths(r.throttled_s)},
                {"memory_peak", r.memory_peak},
                {"memory", r.memory},
                {"bytes_in", r.bytes_in},
                {"bytes_out", r.bytes_out},
                {"round_trips", r.round_trips},
                {"launches", r.launches},
                {"energy_joules", r.joules ? Json(thousandths(*r.joules)) : Json()},
                {"verdict", verdict(r)}}
               .dump(2, ' ', false, Json::error_handler_t::replace) +
           "\n";
}

}  // namespace rgpu::cli
