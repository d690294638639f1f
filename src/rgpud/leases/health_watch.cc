// SPDX-License-Identifier: Apache-2.0
#include "rgpud/leases/health_watch.h"

#include <algorithm>

#include "rgpud/host/driver.h"
#include "util/log.h"
#include "util/units.h"

namespace rgpu::serverd {
namespace {

// All of them on one line: servers of a pool should be alike in these.
std::string settings_text(const RgpudConfig &config)
{
    auto on = [](bool value) { return value ? "on" : "off"; };
    return std::string("encrypt ") + config.encrypt + ", transport " + config.transport +
           ", worker_memory " +
           (config.worker_memory ? health::size_text(config.worker_memory) : "unlimited") +
           ", max_workers " + std::to_string(config.max_workers) + ", max_kernel " +
           format_duration(config.max_kernel) + ", max_term " + format_duration(config.max_term) +
           ", confine_workers " + config.confine_workers + ", warm " + on(config.warm);
}

health::Host host_of(const RgpudConfig &config, const Driver &driver)
{
    health::Host host;
    host.server = true;
    host.state_dir = config.state_dir;
    host.worker = config.worker;
    host.software = driver.software;
    host.cuda = driver.inventory.driver_version;
    host.settings = settings_text(config);
    for (size_t i = 0; i < driver.inventory.gpus.size(); ++i) {
        const pool::GpuState &gpu = driver.inventory.gpus[i];
        const auto &can = driver.inventory.abilities;
        host.gpus.push_back({gpu.index, gpu.uuid, gpu.pci, gpu.memory,
                             i < can.size() ? can[i].stream_memory_ops : -1,
                             i < can.size() ? can[i].host_pointers : -1});
    }
    host.readings = read_gpus(config, driver);
    return host;
}

// What rgpu list shows: as an administrator's reason it is short and printable ASCII.
std::string told(const health::Finding &finding)
{
    std::string text = "health: " + finding.check +
                       (finding.of.empty() ? "" : " of " + finding.of) + ": " + finding.value;
    text.resize(std::min<size_t>(text.size(), 200));
    for (char &c : text)
        if (c < 0x20 || c > 0x7e) c = '?';
    return text;
}

}  // namespace

health::Readings read_gpus(const RgpudConfig &config, const Driver &driver)
{
    health::Readings none;
    Launch launch;
    launch.command = {config.worker, "--readings"};
    launch.environment = worker_environment(config, driver, own_account());
    launch.environment.merge(encode(worker_start(config, driver)));
    Result<std::string> text =
        output_of(std::move(launch), defaults::kReadingsTimeout, defaults::kMaxReadings);
    Result<health::Readings> readings = text ? health::parse_readings(*text)
                                             : Result<health::Readings>(std::move(text).error());
    if (readings) return std::move(*readings);
    none.why_not = std::move(readings).error().in(config.worker + " --readings").text;
    return none;
}

std::vector<std::vector<int>> nvlinks(const RgpudConfig &config, const Driver &driver)
{
    const auto &gpus = driver.inventory.gpus;
    if (driver.software || gpus.size() < 2) return {};
    health::Readings readings = read_gpus(config, driver);
    auto of = [&](const std::string &uuid) {
        return std::find_if(readings.gpus.begin(), readings.gpus.end(),
                            [&](const health::GpuReading &r) { return r.uuid == uuid; });
    };
    std::vector<std::vector<int>> joined(gpus.size(), std::vector<int>(gpus.size(), 0));
    for (size_t a = 0; a < gpus.size(); ++a)
        for (size_t b = 0; b < gpus.size(); ++b) {
            auto from = of(gpus[a].uuid), to = of(gpus[b].uuid);
            if (from == readings.gpus.end() || to == readings.gpus.end()) continue;
            auto column = static_cast<size_t>(to - readings.gpus.begin());
            joined[a][b] = column < from->nvlink.size() && from->nvlink[column] == 1;
        }
    return joined;
}

void HealthWatch::start()
{
    if (config_.health_check.count() == 0) return;
    look();
    looking_.start(config_.health_check, [this] { look(); });
}

void HealthWatch::look()
{
    const health::Host host = host_of(config_, service_.driver());
    health::Findings findings = health::examine(host);
    std::map<std::string, Service::Gauge> gauges;
    for (const health::GpuReading &gpu : host.readings.gpus)
        gauges[gpu.uuid] = {gpu.temperature, gpu.power};
    service_.set_gauges(std::move(gauges));
    const auto &ignored = config_.health_ignore;
    auto closes = [&](const health::Finding &finding) {
        return finding.verdict == health::Verdict::fatal &&
               std::find(ignored.begin(), ignored.end(), finding.check) == ignored.end();
    };
    auto worst = std::find_if(findings.begin(), findings.end(), closes);
    std::string reason = worst == findings.end() ? "" : told(*worst);
    if (!reason.empty() && reason != closed_)
        log_error("%s (%s): nothing is lent until it passes; %s", reason.c_str(),
                  worst->limit.c_str(), worst->cure.c_str());
    if (reason.empty() && !closed_.empty())
        log_info("health: all FATAL checks pass again: GPUs are lent");
    closed_ = reason;
    service_.set_health(std::move(findings), std::move(reason));
}

}  // namespace rgpu::serverd
