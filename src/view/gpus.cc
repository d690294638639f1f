// SPDX-License-Identifier: Apache-2.0
#include "view/gpus.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <set>

#include "util/fd.h"
#include "util/lease_gpus.h"

namespace rgpu::view {
namespace {

constexpr size_t kMostLease = 1 << 20;
constexpr size_t kMostText = 95;

Result<std::string> read_text(const std::string &path)
{
    // A FIFO in its place must not make anybody wait.
    Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    struct stat status;
    if (!file || fstat(file.get(), &status) != 0)
        return error(ErrorKind::unavailable, "lease file %s: %s", path.c_str(), strerror(errno));
    if (!S_ISREG(status.st_mode))
        return error(ErrorKind::invalid, "lease file %s is no file", path.c_str());
    std::string text;
    char buffer[4096];
    for (ssize_t n; text.size() <= kMostLease && (n = read(file.get(), buffer, sizeof buffer)) > 0;)
        text.append(buffer, static_cast<size_t>(n));
    if (text.size() > kMostLease)
        return error(ErrorKind::invalid, "lease file %s has more than 1 MiB", path.c_str());
    return text;
}

std::string printable(std::string text)
{
    text.resize(std::min(text.size(), kMostText));
    for (char &c : text)
        if (c < ' ' || c > '~') c = '?';
    return text;
}

}  // namespace

Result<std::vector<Gpu>> read_gpus(const std::string &lease_path)
{
    auto text = read_text(lease_path);
    if (!text) return std::move(text).error();
    auto json = Json::parse(*text);
    if (!json) return std::move(json).error().in("lease file " + lease_path);
    std::vector<Gpu> gpus;
    std::vector<ServerGpu> places;
    for (LeaseGpu &gpu : lease_gpus(*json)) {
        gpus.push_back({printable(std::move(gpu.uuid)),
                        printable(std::move(gpu.name)),
                        {},
                        printable(gpu.place.server),
                        gpu.nccl});
        places.push_back(std::move(gpu.place));
    }
    if (gpus.empty() || gpus.size() > kMostGpus)
        return error(ErrorKind::invalid, "lease file %s names %zu GPUs", lease_path.c_str(),
                     gpus.size());
    const auto addresses = pci_addresses(places);
    for (size_t i = 0; i < gpus.size(); i++) gpus[i].pci = addresses[i];
    return gpus;
}

Variables gpu_variables(const std::vector<Gpu> &gpus)
{
    std::string uuids, servers;
    std::set<std::string> named;
    for (const Gpu &gpu : gpus) {
        uuids += (uuids.empty() ? "" : ",") + gpu.uuid;
        if (named.insert(gpu.server).second) servers += (servers.empty() ? "" : ",") + gpu.server;
    }
    return {{"RGPU_GPUS", std::to_string(gpus.size())},
            {"RGPU_GPU_UUIDS", uuids},
            {"RGPU_SERVERS", servers}};
}

}  // namespace rgpu::view
