// SPDX-License-Identifier: Apache-2.0
#include "pool/messages/inventory_json.h"

#include "pool/messages/fields.h"
#include "pool/messages/lease_parts.h"

namespace rgpu::pool {
namespace {

Result<void> read_gpu(const Json &json, std::vector<GpuState> &gpus, bool with_free)
{
    Reader reader(json, "gpu");
    GpuState gpu;
    gpu.index = reader.count("index");
    gpu.uuid = reader.text("uuid");
    gpu.name = reader.text("name");
    gpu.memory = reader.count<uint64_t>("memory");
    gpu.compute_capability = reader.text("compute_capability");
    gpu.pci = reader.text("pci", false);
    gpu.drained = reader.text("drained", false);
    // An older server does not tell.
    if (reader.member("fixed_addresses", false))
        gpu.fixed_addresses = reader.flag("fixed_addresses");
    gpu.free_memory = gpu.memory;
    if (with_free) {
        gpu.free_share = static_cast<int>(reader.number("free_share", 0, kWholeGpu));
        gpu.free_memory = reader.count<uint64_t>("free_memory");
    }
    gpus.push_back(std::move(gpu));
    return reader.done();
}

}  // namespace

std::string encode(const Inventory &inventory)
{
    Json gpus = Json::array();
    for (const GpuState &gpu : inventory.gpus)
        gpus.push_back({{"index", gpu.index},
                        {"uuid", gpu.uuid},
                        {"name", gpu.name},
                        {"memory", gpu.memory},
                        {"compute_capability", gpu.compute_capability},
                        {"pci", gpu.pci},
                        {"free_share", gpu.free_share},
                        {"free_memory", gpu.free_memory},
                        {"drained", gpu.drained},
                        {"fixed_addresses", gpu.fixed_addresses}});
    return dump({{"name", inventory.name},
                 {"version", inventory.version},
                 {"driver_version", inventory.driver_version},
                 {"driver_release", inventory.driver_release},
                 {"software", inventory.software},
                 {"data_port", inventory.data_port},
                 {"gpus", std::move(gpus)},
                 {"leases", to_json(inventory.leases)}});
}

Result<Inventory> decode_inventory(std::string_view text)
{
    return decode<Inventory>(text, [](const Json &json) -> Result<Inventory> {
        Reader reader(json, "inventory");
        Inventory inventory;
        inventory.name = reader.text("name");
        inventory.version = reader.text("version");
        inventory.driver_version = reader.count("driver_version");
        inventory.driver_release = reader.text("driver_release", false);
        inventory.software = reader.flag("software");
        inventory.data_port = static_cast<int>(reader.number("data_port", 0, 65535));
        reader.each("gpus", [&](const Json &gpu) { return read_gpu(gpu, inventory.gpus, true); });
        reader.each("leases",
                    [&](const Json &lease) { return read_lease(lease, inventory.leases); });
        Result<void> read = reader.done();
        if (!read) return std::move(read).error();
        return inventory;
    });
}

namespace {

Json to_json(const TenantShare &t)
{
    Json json = {{"least", t.least},
                 {"most", t.most},
                 {"weight", t.weight},
                 {"workers", t.workers},
                 {"running", t.running},
                 {"waiting", t.waiting},
                 {"due", rounded(t.due)},
                 {"given_1s", rounded(t.given_1s)},
                 {"given_10s", rounded(t.given_10s)},
                 {"given_1min", rounded(t.given_1min)},
                 {"given_s", rounded(t.given_s)},
                 {"owed_s", rounded(t.owed_s)},
                 {"turns", t.turns},
                 {"launches", t.launches},
                 {"bytes", t.bytes},
                 {"launches_per_s", rounded(t.launches_per_s)},
                 {"bytes_per_s", rounded(t.bytes_per_s)},
                 {"memory_used", t.memory_used},
                 {"longest_s", rounded(t.longest_s)},
                 {"running_s", rounded(t.running_s)}};
    if (!t.lease.empty()) {
        json["lease"] = t.lease;
        json["owner"] = to_json(t.owner);
        json["memory"] = t.memory;
    }
    return json;
}

Result<void> read_tenant(const Json &json, std::vector<TenantShare> &tenants)
{
    Reader reader(json, "tenant");
    TenantShare t;
    t.lease = reader.text("lease", false);
    if (const Json *owner = reader.member("owner", false)) {
        Reader owner_reader(*owner, "owner");
        t.owner = read_owner(owner_reader);
    }
    t.least = reader.count("least");
    t.most = reader.count("most");
    t.weight = reader.real("weight");
    t.workers = reader.count("workers");
    t.running = reader.flag("running");
    t.waiting = reader.flag("waiting");
    t.due = reader.real("due");
    t.given_1s = reader.real("given_1s");
    t.given_10s = reader.real("given_10s");
    t.given_1min = reader.real("given_1min");
    t.given_s = reader.real("given_s");
    t.owed_s = reader.real("owed_s");
    t.turns = reader.count<uint64_t>("turns", false);
    t.launches = reader.count<uint64_t>("launches", false);
    t.bytes = reader.count<uint64_t>("bytes", false);
    t.launches_per_s = reader.real("launches_per_s");
    t.bytes_per_s = reader.real("bytes_per_s");
    t.memory = reader.count<uint64_t>("memory", false);
    t.memory_used = reader.count<uint64_t>("memory_used", false);
    t.longest_s = reader.real("longest_s");
    t.running_s = reader.real("running_s");
    tenants.push_back(std::move(t));
    return reader.done();
}

Result<void> read_gpu_sharing(const Json &json, std::vector<GpuSharing> &gpus)
{
    Reader reader(json, "gpu");
    GpuSharing gpu;
    gpu.index = reader.count("index");
    gpu.uuid = reader.text("uuid");
    reader.each("tenants", [&](const Json &tenant) { return read_tenant(tenant, gpu.tenants); });
    gpus.push_back(std::move(gpu));
    return reader.done();
}

}  // namespace

std::string encode(const Sharing &sharing)
{
    Json gpus = Json::array();
    for (const GpuSharing &gpu : sharing.gpus) {
        Json tenants = Json::array();
        for (const TenantShare &tenant : gpu.tenants) tenants.push_back(to_json(tenant));
        gpus.push_back({{"index", gpu.index}, {"uuid", gpu.uuid}, {"tenants", std::move(tenants)}});
    }
    return dump({{"name", sharing.name}, {"gpus", std::move(gpus)}});
}

Result<Sharing> decode_sharing(std::string_view text)
{
    return decode<Sharing>(text, [](const Json &json) -> Result<Sharing> {
        Reader reader(json, "sharing");
        Sharing sharing;
        sharing.name = reader.text("name");
        reader.each("gpus", [&](const Json &gpu) { return read_gpu_sharing(gpu, sharing.gpus); });
        Result<void> read = reader.done();
        if (!read) return std::move(read).error();
        return sharing;
    });
}

namespace {

DriverInventory::Abilities read_abilities(const Json &gpu)
{
    // An older worker program, which runs until the host is started anew, does not tell.
    auto number = [&](const char *name) {
        auto found = gpu.is_object() ? gpu.find(name) : gpu.end();
        return found != gpu.end() && found->is_number_integer() ? found->get<int>() != 0 : -1;
    };
    return {number("stream_memory_ops"), number("host_pointers")};
}

}  // namespace

Result<DriverInventory> decode_driver_inventory(std::string_view text)
{
    return decode<DriverInventory>(text, [](const Json &json) -> Result<DriverInventory> {
        Reader reader(json, "inventory");
        DriverInventory inventory;
        inventory.driver_version = reader.count("driver_version");
        inventory.driver_release = reader.text("driver_release", false);
        reader.each("gpus", [&](const Json &gpu) {
            inventory.abilities.push_back(read_abilities(gpu));
            return read_gpu(gpu, inventory.gpus, false);
        });
        Result<void> read = reader.done();
        if (!read) return std::move(read).error();
        return inventory;
    });
}

}  // namespace rgpu::pool
