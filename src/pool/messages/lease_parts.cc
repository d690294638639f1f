// SPDX-License-Identifier: Apache-2.0
#include "pool/messages/lease_parts.h"

#include "util/sha256.h"

namespace rgpu::pool {

Json to_json(const Owner &owner)
{
    Json json = {{"uid", owner.uid}, {"user", owner.user}};
    if (!owner.job.empty()) {
        json["job"] = owner.job;
        json["node"] = owner.node;
        if (!owner.qos.empty()) json["qos"] = owner.qos;
        if (!owner.account.empty()) json["account"] = owner.account;
        if (owner.run >= 0) json["run"] = owner.run;
    } else {
        json["host"] = owner.host;
        json["pid"] = owner.pid;
    }
    return json;
}

Owner read_owner(Reader &reader)
{
    Owner owner;
    owner.uid = reader.count<uint32_t>("uid");
    owner.user = reader.text("user", false);
    owner.job = reader.text("job", false);
    owner.node = reader.text("node", false);
    owner.qos = reader.text("qos", false);
    owner.account = reader.text("account", false);
    owner.run = static_cast<int>(reader.number("run", 0, INT32_MAX, false, -1));
    owner.host = reader.text("host", false);
    owner.pid = reader.count<uint32_t>("pid", false);
    return owner;
}

Json to_json(const std::vector<Portion> &portions)
{
    Json json = Json::array();
    for (const Portion &portion : portions)
        json.push_back({{"index", portion.index},
                        {"uuid", portion.uuid},
                        {"name", portion.name},
                        {"share", portion.share},
                        {"most", portion.most},
                        {"memory", portion.memory}});
    return json;
}

Result<void> read_portion(const Json &json, std::vector<Portion> &portions)
{
    Reader reader(json, "gpu");
    Portion portion;
    portion.index = reader.count("index");
    portion.uuid = reader.text("uuid");
    portion.name = reader.text("name");
    portion.share = static_cast<int>(reader.number("share", 0, kWholeGpu));
    portion.most = static_cast<int>(reader.number("most", std::max(1, portion.share), kWholeGpu,
                                                  false, std::max(1, portion.share)));
    portion.memory = reader.count<uint64_t>("memory");
    portions.push_back(std::move(portion));
    return reader.done();
}

Json to_json(const Lease &lease)
{
    Json json = {{"id", lease.id},
                 {"owner", to_json(lease.owner)},
                 {"gpus", to_json(lease.gpus)},
                 {"term_ms", lease.term.count()},
                 {"expires_in_ms", lease.expires_in.count()},
                 {"granted_at", lease.granted_at},
                 {"workers", lease.workers}};
    if (!lease.boot.empty()) json["boot"] = lease.boot;
    if (!lease.span.id.empty()) json["span"] = {{"id", lease.span.id}, {"gpus", lease.span.gpus}};
    if (lease.nccl) json["nccl"] = true;
    if (!lease.secret.empty()) json["secret"] = to_hex(lease.secret.data(), lease.secret.size());
    if (!lease.sealed.empty()) json["sealed"] = to_hex(lease.sealed.data(), lease.sealed.size());
    return json;
}

Result<void> read_lease(const Json &json, std::vector<Lease> &leases)
{
    Reader reader(json, "lease");
    Lease lease;
    lease.id = reader.text("id");
    std::string secret = reader.text("secret", false);
    if (!from_hex(secret, lease.secret)) reader.wrong("secret", "must be hex digits");
    if (!from_hex(reader.text("sealed", false), lease.sealed))
        reader.wrong("sealed", "must be hex digits");
    if (const Json *owner = reader.member("owner")) {
        Reader owner_reader(*owner, "owner");
        lease.owner = read_owner(owner_reader);
        Result<void> read = owner_reader.done();
        if (!read) return read;
    }
    reader.each("gpus", [&](const Json &gpu) { return read_portion(gpu, lease.gpus); });
    lease.term = Milliseconds(reader.count<int64_t>("term_ms"));
    lease.expires_in = Milliseconds(reader.count<int64_t>("expires_in_ms"));
    lease.granted_at = reader.count<int64_t>("granted_at");
    lease.workers = reader.count("workers");
    lease.boot = reader.text("boot", false);
    lease.nccl = reader.flag("nccl");
    if (const Json *span = reader.member("span", false)) {
        Reader span_reader(*span, "span");
        lease.span = {span_reader.text("id"), span_reader.count("gpus")};
        if (Result<void> read = span_reader.done(); !read) return read;
    }
    leases.push_back(std::move(lease));
    return reader.done();
}

Json to_json(const std::vector<Lease> &leases)
{
    Json json = Json::array();
    for (const Lease &lease : leases) json.push_back(to_json(lease));
    return json;
}

}  // namespace rgpu::pool
