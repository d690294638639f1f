// SPDX-License-Identifier: Apache-2.0
#include "worker/host/energy.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "worker/host/host_nvml.h"

namespace rgpu::worker {
namespace {

void say(const std::string &line)
{
    fputs((line + "\n").c_str(), stdout);
    fflush(stdout);
}

std::string counters(const HostNvml &nvml, const std::vector<HostNvml::Device> &devices)
{
    std::string line;
    for (HostNvml::Device device : devices) {
        unsigned long long millijoules = 0;
        const std::string uuid = nvml.uuid(device);
        if (uuid.empty() || !nvml.ask("nvmlDeviceGetTotalEnergyConsumption", device, &millijoules))
            continue;
        line += (line.empty() ? "" : " ") + uuid + " " + std::to_string(millijoules);
    }
    return line;
}

}  // namespace

int serve_energy()
{
    const Result<HostNvml> nvml = HostNvml::open();
    if (!nvml) {
        say("! " + nvml.error().text);
        return 1;
    }
    const std::vector<HostNvml::Device> devices = nvml->devices();
    for (char question;;) {
        const ssize_t n = read(kEnergyQuestions, &question, 1);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return 0;
        say(counters(*nvml, devices));
    }
}

}  // namespace rgpu::worker
