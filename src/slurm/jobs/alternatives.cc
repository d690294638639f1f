// SPDX-License-Identifier: Apache-2.0
#include "slurm/jobs/alternatives.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "pool/ledger/placement.h"
#include "slurm/terms/filters.h"
#include "util/format.h"

namespace rgpu::slurm {
namespace {

struct Wanted {
    unsigned gpus, nodes;
    std::string type;
    unsigned share;
    bool span = false;
};

using Servers = std::vector<pool::Inventory>;

Servers answering(const pool::Inventories &pool)
{
    Servers servers;
    for (const auto &told : pool)
        if (told.answer) servers.push_back(*told.answer);
    return servers;
}

// Takes what was placed away from the server.
void take(pool::Inventory &server, const pool::Placement &placed, const pool::Request &request)
{
    for (size_t at : placed.chosen) {
        pool::GpuState &gpu = server.gpus[at];
        gpu.free_memory -= std::min(gpu.free_memory, pool::memory_of(gpu, request));
        gpu.free_share -= request.share;
    }
}

// GPUs for one node; false where the servers have not so many.
bool take_for_node(Servers &servers, const pool::Request &request, bool span)
{
    int left = request.gpus;
    for (pool::Inventory &server : servers) {
        pool::Request part = request;
        part.gpus = left;
        const pool::DriverVersions driver{server.driver_version, server.driver_release};
        const auto placed = pool::place(server.gpus, part, {}, driver);
        if (placed.answer != pool::Answer::now) continue;
        take(server, placed, part);
        left -= static_cast<int>(placed.chosen.size());
        if (left <= 0) return true;
        if (!span) return false;
    }
    return false;
}

bool fits(Servers servers, const Wanted &wanted)
{
    pool::Request request;
    request.gpus = static_cast<int>(wanted.gpus);
    request.share = static_cast<int>(wanted.share);
    request.most = request.share;
    if (wanted.span) request.span = "any";
    if (!wanted.type.empty()) request.filter.names = {name_of_type(wanted.type)};
    for (unsigned node = 0; node < wanted.nodes; node++)
        if (!take_for_node(servers, request, wanted.span)) return false;
    return true;
}

// "rgpu:h100:2".
std::string gres(const std::string &type, unsigned gpus)
{
    return "--gres=rgpu:" + (type.empty() ? "" : type + ":") + std::to_string(gpus);
}

// A GPU's name as a type that Slurm takes.
std::string as_type(std::string name)
{
    for (char &c : name)
        c = c == ' ' ? '_' : static_cast<char>(tolower(static_cast<unsigned char>(c)));
    return name;
}

Wanted wanted_by(const PoolJob &job)
{
    return {std::max(job.gpus, 1U), job.nodes, job.type, job.share()};
}

}  // namespace

bool fits_now(const PoolJob &job, const pool::Inventories &pool)
{
    return fits(answering(pool), wanted_by(job));
}

std::vector<Alternative> alternatives(const PoolJob &job, const pool::Inventories &pool)
{
    const Servers servers = answering(pool);
    const Wanted now = wanted_by(job);
    std::vector<Alternative> out;
    if (!now.type.empty()) {
        std::set<std::string> types;
        for (const pool::Inventory &server : servers)
            for (const pool::GpuState &gpu : server.gpus)
                if (!is_of_type(gpu.name, now.type)) types.insert(gpu.name);
        for (const std::string &name : types) {
            Wanted other = now;
            other.type = as_type(name);
            if (fits(servers, other))
                out.push_back({gres(other.type, now.gpus), "another type: " + name});
        }
    }
    for (unsigned share : {75U, 50U, 25U, 10U}) {
        Wanted part = now;
        part.share = share;
        if (share >= now.share || !fits(servers, part)) continue;
        out.push_back({"--rgpu-share=" + std::to_string(share),
                       std::to_string(share) + "% of each GPU's time and memory"});
        break;
    }
    if (Wanted spread = now; now.gpus > 1) {
        spread.span = true;
        if (fits(servers, spread))
            out.push_back({"--rgpu-span", "GPUs of several servers, for programs that can"});
    }
    for (unsigned gpus = now.gpus - 1; gpus > 0; gpus--) {
        Wanted fewer = now;
        fewer.gpus = gpus;
        if (!fits(servers, fewer)) continue;
        out.push_back(
            {gres(now.type, gpus),
             counted(gpus, "GPU") + " on each node, in the place of " + std::to_string(now.gpus)});
        break;
    }
    return out;
}

}  // namespace rgpu::slurm
