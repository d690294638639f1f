// SPDX-License-Identifier: Apache-2.0
#include "web/data/seen.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "pool/messages/fields.h"

namespace rgpu::web {
namespace {

using pool::Json;

// Whole percents and mebibytes: what nobody sees change is not sent again.
int percent(double part) { return static_cast<int>(std::lround(100 * part)); }
uint64_t whole_mib(uint64_t bytes) { return bytes >> 20 << 20; }

std::string state_of(const pool::TenantShare &tenant)
{
    return tenant.running ? "runs" : tenant.waiting ? "waits" : tenant.workers ? "idle" : "gone";
}

void add_tenant(Json &holder, const pool::TenantShare &tenant)
{
    holder["use"] = percent(tenant.given_10s);
    holder["state"] = state_of(tenant);
    if (tenant.memory_used) holder["memory_used"] = whole_mib(tenant.memory_used);
}

void add_owner(Json &holder, const pool::Lease &lease, const Viewer &viewer)
{
    const pool::Owner &owner = lease.owner;
    holder["lease"] = lease.id.substr(0, 8);
    holder["user"] = name_of(owner);
    holder["since"] = lease.granted_at;
    if (!viewer.user.empty() && owner.uid == viewer.uid) holder["mine"] = true;
    if (!owner.job.empty()) {
        holder["job"] = owner.job;
        holder["node"] = owner.node;
    } else {
        holder["host"] = owner.host;
        holder["pid"] = owner.pid;
    }
}

const pool::GpuSharing *sharing_of(const ServerSeen &server, const std::string &uuid)
{
    if (!server.sharing) return nullptr;
    const auto &gpus = server.sharing->gpus;
    const auto found =
        std::find_if(gpus.begin(), gpus.end(), [&](const auto &gpu) { return gpu.uuid == uuid; });
    return found == gpus.end() ? nullptr : &*found;
}

// Each lease's part of the GPU, and one entry for what others hold whom rgpu web is not told of.
Json holders_of(const ServerSeen &server, const pool::GpuState &gpu, const Viewer &viewer)
{
    const pool::GpuSharing *sharing = sharing_of(server, gpu.uuid);
    Json holders = Json::array();
    int told = 0;
    for (const pool::Lease &lease : server.inventory->leases)
        for (const pool::Portion &part : lease.gpus) {
            if (part.uuid != gpu.uuid) continue;
            Json holder = {{"share", part.share}, {"most", part.most}, {"memory", part.memory}};
            for (size_t i = 0; sharing && i < sharing->tenants.size(); ++i)
                if (sharing->tenants[i].lease == lease.id) add_tenant(holder, sharing->tenants[i]);
            if (viewer.sees(lease.owner)) add_owner(holder, lease, viewer);
            holders.push_back(std::move(holder));
            told += part.share;
        }
    if (const int rest = kWholeGpu - gpu.free_share - told; rest > 0)
        holders.push_back({{"share", rest}, {"most", rest}});
    return holders;
}

Json gpu_json(const ServerSeen &server, const pool::GpuState &gpu, const Viewer &viewer)
{
    Json out = {{"name", gpu.name},
                {"memory", gpu.memory},
                {"free_share", gpu.free_share},
                {"holders", holders_of(server, gpu, viewer)}};
    if (!gpu.drained.empty()) out["drained"] = gpu.drained;
    if (const auto hot = server.celsius.find(gpu.index); hot != server.celsius.end())
        out["celsius"] = hot->second;
    if (const pool::GpuSharing *sharing = sharing_of(server, gpu.uuid)) {
        double use = 0;
        uint64_t memory = 0;
        for (const pool::TenantShare &tenant : sharing->tenants) {
            use += tenant.given_10s;
            memory += tenant.memory_used;
        }
        out["use"] = std::min(percent(use), 100);
        out["memory_used"] = whole_mib(memory);
    }
    return out;
}

}  // namespace

std::map<int, int> celsius_of(const pool::Health &health)
{
    std::map<int, int> out;
    for (const pool::Finding &finding : health.findings) {
        if (finding.check != "temperature" || !finding.of.starts_with("GPU ")) continue;
        char *end = nullptr;
        const long degrees = strtol(finding.value.c_str(), &end, 10);
        if (end != finding.value.c_str() && std::string_view(end) == " C")
            out[atoi(finding.of.c_str() + 4)] = static_cast<int>(degrees);
    }
    return out;
}

std::string server_json(const ServerSeen &server, const Viewer &viewer)
{
    Json out = {{"name", server.name}, {"gpus", Json::array()}};
    if (!server.failure.empty()) out["failure"] = server.failure;
    if (server.inventory) {
        out["version"] = server.inventory->version;
        out["software"] = server.inventory->software;
        for (const pool::GpuState &gpu : server.inventory->gpus)
            out["gpus"].push_back(gpu_json(server, gpu, viewer));
    }
    return pool::dump(out);
}

}  // namespace rgpu::web
