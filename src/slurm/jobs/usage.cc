// SPDX-License-Identifier: Apache-2.0
#include "slurm/jobs/usage.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include <nlohmann/json.hpp>

namespace rgpu::slurm {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kMark = "{\"rgpu\":";

double rounded(double seconds) { return std::round(seconds * 1000) / 1000; }

// What comes through sacctmgr as it is.
std::string plain(std::string text)
{
    for (char &c : text)
        if (c < 0x20 || c > 0x7e || c == '"' || c == '\'' || c == '`' || c == '\\') c = '_';
    return text;
}

void insert(std::vector<std::string> &names, const std::string &name)
{
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

TypeUsage &type_of(JobUsage &usage, const std::string &name)
{
    for (TypeUsage &type : usage.gpus)
        if (type.name == name) return type;
    usage.gpus.emplace_back().name = name;
    return usage.gpus.back();
}

TypeUsage read_type(const Json &json)
{
    TypeUsage type;
    // sacctmgr of Slurm 22.05 makes small letters of all, 24.11 does not: one type of GPU is one
    // line all the same.
    type.name = json.at("name").get<std::string>();
    for (char &c : type.name) c = static_cast<char>(tolower(static_cast<unsigned char>(c)));
    type.gpu_seconds = json.value("gpu_seconds", 0.0);
    type.busy_seconds = json.value("busy_seconds", 0.0);
    type.blocked_seconds = json.value("blocked_seconds", 0.0);
    type.throttled_seconds = json.value("throttled_seconds", 0.0);
    type.memory_peak = json.value("memory_peak", uint64_t{0});
    type.launches = json.value("launches", uint64_t{0});
    type.bytes_in = json.value("bytes_in", uint64_t{0});
    type.bytes_out = json.value("bytes_out", uint64_t{0});
    if (json.contains("joules")) type.joules = json.at("joules").get<double>();
    return type;
}

}  // namespace

void add(TypeUsage &to, const TypeUsage &one)
{
    to.gpu_seconds += one.gpu_seconds;
    to.busy_seconds += one.busy_seconds;
    to.blocked_seconds += one.blocked_seconds;
    to.throttled_seconds += one.throttled_seconds;
    to.memory_peak = std::max(to.memory_peak, one.memory_peak);
    to.launches += one.launches;
    to.bytes_in += one.bytes_in;
    to.bytes_out += one.bytes_out;
    if (one.joules) to.joules = to.joules.value_or(0) + *one.joules;
}

void add(JobUsage &to, const std::string &server, const std::vector<pool::LeaseUsage> &leases)
{
    for (const pool::LeaseUsage &lease : leases) {
        insert(to.servers, plain(server));
        for (size_t i = 0; i < lease.gpus.size(); ++i) {
            const pool::GpuUsage &gpu = lease.gpus[i];
            TypeUsage one;
            one.gpu_seconds = lease.held_s * gpu.share / kWholeGpu;
            one.busy_seconds = gpu.busy_s;
            one.blocked_seconds = gpu.blocked_s;
            one.throttled_seconds = gpu.throttled_s;
            one.memory_peak = gpu.memory_peak;
            one.launches = gpu.launches;
            one.joules = gpu.energy_j;
            // A connection serves all GPUs of its lease.
            one.bytes_in = i == 0 ? lease.bytes_in : 0;
            one.bytes_out = i == 0 ? lease.bytes_out : 0;
            add(type_of(to, plain(gpu.name)), one);
        }
    }
}

std::string to_comment(const JobUsage &usage, std::string_view before)
{
    Json gpus = Json::array();
    for (const TypeUsage &type : usage.gpus) {
        gpus.push_back({{"name", type.name},
                        {"gpu_seconds", rounded(type.gpu_seconds)},
                        {"busy_seconds", rounded(type.busy_seconds)},
                        {"blocked_seconds", rounded(type.blocked_seconds)},
                        {"throttled_seconds", rounded(type.throttled_seconds)},
                        {"memory_peak", type.memory_peak},
                        {"launches", type.launches},
                        {"bytes_in", type.bytes_in},
                        {"bytes_out", type.bytes_out}});
        if (type.joules) gpus.back()["joules"] = rounded(*type.joules);
    }
    Json json = {{"gpus", std::move(gpus)}, {"servers", usage.servers}};
    if (!usage.silent.empty()) json["silent"] = usage.silent;
    std::string out(before);
    return out + (out.empty() ? "" : " ") + std::string(kMark) + json.dump() + "}";
}

std::optional<JobUsage> from_comment(std::string_view comment)
{
    std::string text(comment);
    std::replace(text.begin(), text.end(), '`', '"');
    size_t begin = text.rfind(kMark), end = text.rfind('}');
    if (begin == text.npos || end == text.npos || end < begin) return {};
    Json json = Json::parse(text.begin() + static_cast<ptrdiff_t>(begin),
                            text.begin() + static_cast<ptrdiff_t>(end) + 1, nullptr, false);
    try {
        JobUsage usage;
        for (const Json &type : json.at("rgpu").at("gpus")) usage.gpus.push_back(read_type(type));
        usage.servers = json["rgpu"].value("servers", std::vector<std::string>{});
        usage.silent = json["rgpu"].value("silent", std::vector<std::string>{});
        return usage;
    } catch (const Json::exception &) {
        return {};  // somebody else's, or cut off
    }
}

}  // namespace rgpu::slurm
