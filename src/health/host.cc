// SPDX-License-Identifier: Apache-2.0
#include "health/host.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include <nlohmann/json.hpp>

#include "util/fd.h"

namespace rgpu::health {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostText = size_t{4} << 20;

int whole(const Json &json, const char *key)
{
    auto value = json.find(key);
    return value != json.end() && value->is_number_integer() ? value->get<int>() : -1;
}

std::string word(const Json &json, const char *key)
{
    auto value = json.find(key);
    return value != json.end() && value->is_string() ? value->get<std::string>() : "";
}

std::vector<int> row(const Json &json, const char *key)
{
    std::vector<int> all;
    if (auto value = json.find(key); value != json.end() && value->is_array())
        for (const Json &one : *value) all.push_back(one.is_number_integer() ? one.get<int>() : -1);
    return all;
}

}  // namespace

std::string text_of(const Host &host, const std::string &path)
{
    // Without waiting: /dev/kmsg would wait for the next message at its end.
    Fd file(open((host.root + path).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    std::string text;
    char block[16384];
    while (file && text.size() < kMostText) {
        ssize_t n = read(file.get(), block, sizeof block);
        if (n > 0)
            text.append(block, static_cast<size_t>(n));
        else if (n == 0 || errno != EPIPE)  // /dev/kmsg: some of it was overwritten meanwhile, and
                                            // the rest follows
            break;
    }
    if (text.ends_with('\n')) text.pop_back();
    return text;
}

Result<Readings> parse_readings(std::string_view text)
{
    Json json = Json::parse(text, nullptr, false);
    if (!json.is_object()) return error(ErrorKind::invalid, "no JSON object");
    Readings readings;
    readings.why_not = word(json, "why_not");
    readings.broken = whole(json, "broken") > 0;
    readings.driver = word(json, "driver");
    readings.cuda = std::max(0, whole(json, "cuda"));
    if (auto gpus = json.find("gpus"); gpus != json.end() && gpus->is_array())
        for (const Json &gpu : *gpus) {
            GpuReading r;
            r.index = whole(gpu, "index");
            r.uuid = word(gpu, "uuid");
            r.pci = word(gpu, "pci");
            r.temperature = whole(gpu, "temperature");
            r.power = whole(gpu, "power");
            r.slowdown = whole(gpu, "slowdown");
            r.shutdown = whole(gpu, "shutdown");
            r.compute_mode = whole(gpu, "compute_mode");
            r.persistence = whole(gpu, "persistence");
            r.ecc_uncorrected = whole(gpu, "ecc_uncorrected");
            r.remap_pending = whole(gpu, "remap_pending");
            r.remap_failed = whole(gpu, "remap_failed");
            r.p2p = row(gpu, "p2p");
            r.nvlink = row(gpu, "nvlink");
            readings.gpus.push_back(std::move(r));
        }
    if (readings.why_not.empty() && readings.gpus.empty()) readings.why_not = "NVML finds no GPU";
    return readings;
}

}  // namespace rgpu::health
