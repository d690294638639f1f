// SPDX-License-Identifier: Apache-2.0
// libcuda.so.1 has a thread of its own in each program that is connected, by whose name it is
// known.
#include "nvml/processes.h"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>

#include "interpose/base/thread_name.h"
#include "util/visible_devices.h"

namespace rgpu::nvml {
namespace {

std::string contents(const std::string &path)
{
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string> numbers_in(const std::string &path)
{
    std::vector<std::string> names;
    std::unique_ptr<DIR, int (*)(DIR *)> dir(opendir(path.c_str()), closedir);
    while (dirent *entry = dir ? readdir(dir.get()) : nullptr)
        if (isdigit(static_cast<unsigned char>(entry->d_name[0]))) names.push_back(entry->d_name);
    return names;
}

// A variable of an environment as /proc has it; false where it is not set.
bool variable(const std::string &environment, const std::string &name, std::string &value)
{
    const std::string with = '\0' + name + "=";
    const size_t at = ('\0' + environment).find(with);
    if (at == std::string::npos) return false;
    value = environment.c_str() + at + with.size() - 1;
    return true;
}

// In a container the lease file has another name than outside.
std::string lease_of(const std::string &environment)
{
    std::string lease;
    if (!variable(environment, "RGPU_LEASE_OUTSIDE", lease))
        variable(environment, "RGPU_LEASE", lease);
    return lease;
}

bool is_connected(const std::string &process)
{
    const auto threads = numbers_in(process + "/task");
    return std::any_of(threads.begin(), threads.end(), [&](const std::string &thread) {
        return contents(process + "/task/" + thread + "/comm") ==
               std::string(interpose::kThreadName) + "\n";
    });
}

}  // namespace

std::vector<Process> processes_on(const Pool &pool, const Device &device)
{
    const char *outside = getenv("RGPU_LEASE_OUTSIDE"), *lease = getenv("RGPU_LEASE");
    const std::string own = outside ? outside : lease ? lease : "";
    std::vector<std::string> uuids;
    for (const auto &d : pool.devices) uuids.push_back(d->gpu.uuid);
    std::vector<Process> found;
    for (const std::string &pid : numbers_in("/proc")) {
        const std::string process = "/proc/" + pid, environment = contents(process + "/environ");
        if (lease_of(environment) != own || own.empty() || !is_connected(process)) continue;
        std::string list;
        const bool listed = variable(environment, "CUDA_VISIBLE_DEVICES", list);
        const auto seen = visible_devices(listed ? list.c_str() : nullptr, uuids);
        if (std::find(seen.begin(), seen.end(), static_cast<int>(device.index)) != seen.end())
            found.push_back({static_cast<unsigned>(atol(pid.c_str())), ~0ull});
    }
    // What the lease holds is the only one's.
    if (found.size() == 1)
        if (auto status = device.link->status(device.gpu.uuid); status.memory_used >= 0)
            found[0].memory = static_cast<uint64_t>(status.memory_used);
    return found;
}

}  // namespace rgpu::nvml
