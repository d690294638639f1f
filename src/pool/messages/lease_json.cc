// SPDX-License-Identifier: Apache-2.0
#include "pool/messages/lease_json.h"

#include "pool/messages/fields.h"
#include "pool/messages/lease_parts.h"
#include "util/sha256.h"

namespace rgpu::pool {

std::string encode(const Leases &leases)
{
    return dump({{"data_port", leases.data_port}, {"leases", to_json(leases.leases)}});
}

Result<Leases> decode_leases(std::string_view text)
{
    return decode<Leases>(text, [](const Json &json) -> Result<Leases> {
        Reader reader(json, "reply");
        Leases leases;
        leases.data_port = static_cast<int>(reader.number("data_port", 0, 65535));
        reader.each("leases", [&](const Json &lease) { return read_lease(lease, leases.leases); });
        Result<void> read = reader.done();
        if (!read) return std::move(read).error();
        return leases;
    });
}

namespace {

Json to_json(const LeaseUsage &usage)
{
    Json gpus = Json::array();
    for (const GpuUsage &gpu : usage.gpus) {
        gpus.push_back({{"uuid", gpu.uuid},
                        {"name", gpu.name},
                        {"share", gpu.share},
                        {"busy_s", rounded(gpu.busy_s)},
                        {"blocked_s", rounded(gpu.blocked_s)},
                        {"throttled_s", rounded(gpu.throttled_s)},
                        {"memory_peak", gpu.memory_peak},
                        {"memory", gpu.memory},
                        {"launches", gpu.launches}});
        if (gpu.energy_j) gpus.back()["energy_j"] = rounded(*gpu.energy_j);
    }
    return {{"lease", usage.lease},
            {"owner", to_json(usage.owner)},
            {"held_s", rounded(usage.held_s)},
            {"bytes_in", usage.bytes_in},
            {"bytes_out", usage.bytes_out},
            {"round_trips", usage.round_trips},
            {"network_s", rounded(usage.network_s)},
            {"idle_s", rounded(usage.idle_s)},
            {"granted_at", usage.granted_at},
            {"ended_at", usage.ended_at},
            {"gpus", std::move(gpus)}};
}

Result<void> read_gpu_usage(const Json &json, std::vector<GpuUsage> &gpus)
{
    Reader reader(json, "gpu");
    GpuUsage gpu;
    gpu.uuid = reader.text("uuid");
    gpu.name = reader.text("name");
    gpu.share = static_cast<int>(reader.number("share", 0, kWholeGpu));
    gpu.busy_s = reader.real("busy_s");
    gpu.blocked_s = reader.real("blocked_s");
    gpu.throttled_s = reader.real("throttled_s");
    gpu.memory = reader.count<uint64_t>("memory", false);
    gpu.memory_peak = reader.count<uint64_t>("memory_peak");
    gpu.launches = reader.count<uint64_t>("launches");
    if (reader.member("energy_j", false)) gpu.energy_j = reader.real("energy_j");
    gpus.push_back(std::move(gpu));
    return reader.done();
}

Result<void> read_usage(const Json &json, std::vector<LeaseUsage> &usages)
{
    Reader reader(json, "usage");
    LeaseUsage usage;
    usage.lease = reader.text("lease");
    if (const Json *owner = reader.member("owner")) {
        Reader owner_reader(*owner, "owner");
        usage.owner = read_owner(owner_reader);
    }
    usage.held_s = reader.real("held_s");
    usage.bytes_in = reader.count<uint64_t>("bytes_in");
    usage.bytes_out = reader.count<uint64_t>("bytes_out");
    usage.round_trips = reader.count<uint64_t>("round_trips", false);
    usage.network_s = reader.real("network_s");
    usage.idle_s = reader.real("idle_s");
    usage.granted_at = reader.count<int64_t>("granted_at", false);
    usage.ended_at = reader.count<int64_t>("ended_at", false);
    reader.each("gpus", [&](const Json &gpu) { return read_gpu_usage(gpu, usage.gpus); });
    usages.push_back(std::move(usage));
    return reader.done();
}

}  // namespace

std::string encode(const Usages &usages)
{
    Json leases = Json::array();
    for (const LeaseUsage &usage : usages.leases) leases.push_back(to_json(usage));
    return dump({{"name", usages.name}, {"leases", std::move(leases)}});
}

Result<Usages> decode_usages(std::string_view text)
{
    return decode<Usages>(text, [](const Json &json) -> Result<Usages> {
        Reader reader(json, "reply");
        Usages usages;
        usages.name = reader.text("name");
        reader.each("leases", [&](const Json &usage) { return read_usage(usage, usages.leases); });
        Result<void> read = reader.done();
        if (!read) return std::move(read).error();
        return usages;
    });
}

std::string encode(const LeaseUsage &usage) { return dump(to_json(usage)); }

Result<LeaseUsage> decode_usage(std::string_view text)
{
    return decode<LeaseUsage>(text, [](const Json &json) -> Result<LeaseUsage> {
        std::vector<LeaseUsage> one;
        Result<void> read = read_usage(json, one);
        if (!read) return std::move(read).error();
        return std::move(one.front());
    });
}

// Of how a worker died, for a job's comment.
constexpr size_t kMostReason = 200;

std::string encode(const Released &released)
{
    Json json = {{"released", released.count}, {"lost", released.lost}};
    if (released.gpus) json["gpus"] = released.gpus;
    if (released.busy) json["busy"] = released.busy;
    if (released.withdrawn) json["withdrawn"] = released.withdrawn;
    if (!released.died.empty()) json["died"] = released.died;
    for (const LeaseUsage &usage : released.usage) json["usage"].push_back(to_json(usage));
    return dump(json);
}

Result<Released> decode_released(std::string_view text)
{
    return decode<Released>(text, [](const Json &json) -> Result<Released> {
        Reader reader(json, "reply");
        Released released;
        released.count = reader.count("released");
        released.lost = reader.count<int>("lost", false);
        released.gpus = reader.count<int>("gpus", false);
        released.busy = reader.count<int>("busy", false);
        released.withdrawn = reader.count<int>("withdrawn", false);
        released.died = printable(reader.text("died", false), kMostReason);
        if (reader.member("usage", false))
            reader.each("usage",
                        [&](const Json &usage) { return read_usage(usage, released.usage); });
        Result<void> read = reader.done();
        if (!read) return std::move(read).error();
        return released;
    });
}

std::string lease_file(const std::string &job, const std::vector<Grant> &grants)
{
    Json servers = Json::array();
    for (const Grant &grant : grants) {
        servers.push_back({{"name", grant.server},
                           {"address", grant.data_address},
                           {"lease", grant.lease.id},
                           {"secret", to_hex(grant.lease.secret.data(), grant.lease.secret.size())},
                           {"gpus", to_json(grant.lease.gpus)}});
        if (grant.lease.nccl) servers.back()["nccl"] = true;
    }
    return dump({{"version", 1}, {"job", job}, {"servers", std::move(servers)}}, 1) + "\n";
}

Result<std::vector<Grant>> decode_lease_file(std::string_view text)
{
    using Grants = std::vector<Grant>;
    return decode<Grants>(text, [](const Json &json) -> Result<Grants> {
        Reader reader(json, "lease file");
        Grants grants;
        reader.each("servers", [&](const Json &server) -> Result<void> {
            Reader fields(server, "server");
            Grant grant{fields.text("name"), fields.text("address"), {}};
            grant.lease.id = fields.text("lease");
            fields.each("gpus",
                        [&](const Json &gpu) { return read_portion(gpu, grant.lease.gpus); });
            grants.push_back(std::move(grant));
            return fields.done();
        });
        if (Result<void> read = reader.done(); !read) return std::move(read).error();
        if (grants.empty()) return error(ErrorKind::invalid, "lease file: it names no server");
        return grants;
    });
}

}  // namespace rgpu::pool
