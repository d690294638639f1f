// SPDX-License-Identifier: Apache-2.0
#include "cli/parts/pool_view.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "cli/parts/table.h"
#include "pool/messages/inventory_json.h"

namespace rgpu::cli {
namespace {

using Json = nlohmann::json;

std::string dump(const Json &json)
{
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

// "alice: job 17 on cn1", one for each lease that holds a part of the GPU.
std::string holders(const pool::Inventory &inventory, const std::string &uuid)
{
    std::string all;
    for (const pool::Lease &lease : inventory.leases)
        for (const pool::Portion &portion : lease.gpus)
            if (portion.uuid == uuid) {
                all += all.empty() ? "" : "; ";
                all += who_of(lease.owner);
                if (portion.share != kWholeGpu)
                    all += " (" + share_text(portion.share, portion.most) + ")";
            }
    return all;
}

// As the server said it (inventory_json.h), under the name that rgpu.conf has for it.
Json as_said(const pool::Told<pool::Inventory> &told)
{
    Json json = Json::parse(pool::encode(*told.answer));
    json["name"] = told.server;
    return json;
}

std::string silent_lines(const pool::Inventories &inventories)
{
    std::string text;
    for (const auto &told : inventories)
        if (!told.answer) text += "no answer from " + told.answer.error().text + "\n";
    return text;
}

// Servers whose drivers place memory themselves (doc/addresses.md).
std::string address_lines(const pool::Inventories &inventories)
{
    std::string text;
    for (const auto &told : inventories) {
        std::string gpus;
        if (!told.answer) continue;
        for (const pool::GpuState &gpu : told.answer->gpus)
            if (!gpu.fixed_addresses) gpus += (gpus.empty() ? "" : ",") + std::to_string(gpu.index);
        if (!gpus.empty()) text += told.server + ": no fixed addresses on GPU " + gpus + "\n";
    }
    return text;
}

std::string ends_in(const pool::Lease &lease)
{
    if (!lease.expires_in.count()) return "-";
    return std::to_string((lease.expires_in.count() + 999) / 1000) + "s";
}

std::string age(int64_t granted_at)
{
    return clock_of(static_cast<double>(std::max<int64_t>(0, time(nullptr) - granted_at)));
}

}  // namespace

std::string user_of(const pool::Owner &owner)
{
    return owner.user.empty() ? std::to_string(owner.uid) : owner.user;
}

std::string who_of(const pool::Owner &owner) { return user_of(owner) + ": " + to_text(owner); }

std::string pool_table(const pool::Inventories &inventories)
{
    std::vector<std::vector<std::string>> rows = {
        {"SERVER", "GPU", "NAME", "FREE", "HELD BY", "MEMORY FREE", "MEMORY", "CC", "DRIVER"}};
    int64_t free = 0, all = 0;
    for (const auto &told : inventories) {
        if (!told.answer) continue;
        for (const pool::GpuState &gpu : told.answer->gpus) {
            std::string who = holders(*told.answer, gpu.uuid);
            const std::string &driver = told.answer->driver_release;
            bool hidden = who.empty() && gpu.free_share < kWholeGpu;
            std::string drained = gpu.drained.empty() ? "" : "[drained: " + gpu.drained + "] ";
            // Who has it stands where a terminal of 80 columns still shows it.
            rows.push_back({told.server, std::to_string(gpu.index), gpu.name,
                            std::to_string(gpu.free_share) + "%",
                            drained + (hidden ? "(another user)" : who),
                            human_size(gpu.free_memory), human_size(gpu.memory),
                            gpu.compute_capability, driver.empty() ? "-" : driver});
            free += gpu.drained.empty() ? gpu.free_share : 0;
            all += kWholeGpu;
        }
    }
    char sum[96];
    snprintf(sum, sizeof sum, "%.4g of %.4g GPUs free\n", static_cast<double>(free) / kWholeGpu,
             static_cast<double>(all) / kWholeGpu);
    return table(rows) + silent_lines(inventories) + address_lines(inventories) + sum;
}

std::string pool_json(const pool::Inventories &inventories)
{
    Json servers = Json::array();
    for (const auto &told : inventories) {
        if (!told.answer) {
            servers.push_back(
                {{"name", told.server}, {"reachable", false}, {"error", told.answer.error().text}});
            continue;
        }
        servers.push_back(as_said(told));
        servers.back()["reachable"] = true;
    }
    return dump({{"servers", std::move(servers)}});
}

std::string lease_table(const pool::Inventories &inventories)
{
    std::vector<std::vector<std::string>> rows = {{"LEASE", "SERVER", "USER", "OWNER", "GPUS",
                                                   "SHARE", "MEMORY", "AGE", "ENDS IN", "WORKERS"}};
    for (const auto &told : inventories) {
        if (!told.answer) continue;
        for (const pool::Lease &lease : told.answer->leases) {
            std::string gpus;
            for (const pool::Portion &portion : lease.gpus)
                gpus += (gpus.empty() ? "" : ",") + std::to_string(portion.index);
            const pool::Portion first = lease.gpus.empty() ? pool::Portion{} : lease.gpus[0];
            rows.push_back({lease.id.substr(0, 8), told.server, user_of(lease.owner),
                            to_text(lease.owner), gpus, share_text(first.share, first.most),
                            human_size(first.memory), age(lease.granted_at), ends_in(lease),
                            std::to_string(lease.workers)});
        }
    }
    return table(rows) + silent_lines(inventories);
}

std::string lease_json(const pool::Inventories &inventories)
{
    Json leases = Json::array(), unreachable = Json::array();
    for (const auto &told : inventories) {
        if (!told.answer) {
            unreachable.push_back({{"name", told.server}, {"error", told.answer.error().text}});
            continue;
        }
        Json inventory = as_said(told);
        for (Json &lease : inventory["leases"]) {
            lease["server"] = told.server;
            leases.push_back(std::move(lease));
        }
    }
    return dump({{"leases", std::move(leases)}, {"unreachable", std::move(unreachable)}});
}

std::string energy_text(double joules)
{
    constexpr double kKilowattHour = 3.6e6;
    char text[48];
    if (joules < 1000)
        snprintf(text, sizeof text, "%.0f J", joules);
    else if (joules < kKilowattHour / 10)
        snprintf(text, sizeof text, "%.1f kJ", joules / 1000);
    else
        snprintf(text, sizeof text, "%.2f kWh", joules / kKilowattHour);
    return text;
}

std::string clock_of(double seconds)
{
    char text[48];
    const long long all = std::llround(seconds);
    snprintf(text, sizeof text, "%lld:%02lld:%02lld", all / 3600, all / 60 % 60, all % 60);
    return text;
}

std::string gpus_text(unsigned long hundredths)
{
    std::string text = std::to_string(hundredths / 100);
    if (const auto part = hundredths % 100; part)
        text += part % 10 ? "." + std::string(part < 10 ? "0" : "") + std::to_string(part)
                          : "." + std::to_string(part / 10);
    return text;
}

}  // namespace rgpu::cli
