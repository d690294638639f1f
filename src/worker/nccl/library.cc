// SPDX-License-Identifier: Apache-2.0
#include "worker/nccl/library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

namespace rgpu::worker::nccl {
namespace {

constexpr const char *kUsual[] = {
    "libnccl.so.2",
    "/usr/lib/x86_64-linux-gnu/libnccl.so.2",
    "/usr/lib64/libnccl.so.2",
    "/usr/local/cuda/lib64/libnccl.so.2",
    "/usr/local/cuda/lib/libnccl.so.2",
};

// Behind what the environment has, and in a list of its own: other threads may be reading the old
// one, which setenv(3) would free.
void add_to_environment(const std::vector<std::string> &variables)
{
    if (variables.empty()) return;
    std::vector<char *> &all = *new std::vector<char *>;
    for (char **e = environ; e && *e; e++) all.push_back(*e);
    for (const std::string &one : variables) all.push_back(strdup(one.c_str()));
    all.push_back(nullptr);
    environ = all.data();
}

// NCCL asks for libcuda.so.1 and libnvidia-ml.so.1 by their names. The driver is loaded and has
// that name, wherever it lies; the software GPU's NVML lies beside it.
void load_nvml()
{
    const char *const driver = getenv("RGPU_DRIVER");
    const char *const slash = driver ? strrchr(driver, '/') : nullptr;
    if (!slash) return;
    const std::string beside = std::string(driver, slash) + "/libnvidia-ml.so.1";
    if (access(beside.c_str(), R_OK) == 0) dlopen(beside.c_str(), RTLD_NOW | RTLD_GLOBAL);
}

}  // namespace

bool is_allowed(const serverd::WorkerStart &start)
{
    return !start.nccl.empty() &&
           std::all_of(start.shares.begin(), start.shares.end(),
                       [](const serverd::GpuShare &s) { return s == serverd::GpuShare(); });
}

Result<void> Library::open(const std::vector<std::string> &variables)
{
    std::lock_guard lock(mutex_);
    if (!std::exchange(tried_, true)) opened_ = open_now(variables);
    if (opened_) return {};
    return error(opened_.error().kind, "%s", opened_.error().text.c_str());
}

Result<void> Library::open_now(const std::vector<std::string> &variables)
{
    std::vector<std::string> all = variables;
    if (!interface_.empty()) all.push_back("NCCL_SOCKET_IFNAME=" + interface_);
    add_to_environment(all);
    load_nvml();
    std::string why = "it is not there";
    const auto try_one = [&](const char *path) {
        if (library_) return;
        library_ = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (const char *text = library_ ? nullptr : dlerror(); text && path != kUsual[0])
            why = text;
    };
    if (wanted_ == "auto")
        for (const char *path : kUsual) try_one(path);
    else
        try_one(wanted_.c_str());
    if (library_ && !dlsym(library_, "ncclCommInitRankConfig")) {
        why = "it is none, or older than 2.14";
        library_ = nullptr;
    }
    if (!library_)
        return error(ErrorKind::unavailable, "the GPU server's NCCL cannot be opened: %s",
                     why.c_str());
    return {};
}

void *Library::function(std::string_view name)
{
    std::lock_guard lock(mutex_);
    const auto it = functions_.find(name);
    if (it != functions_.end()) return it->second;
    const std::string text(name);
    return functions_[text] = library_ ? dlsym(library_, text.c_str()) : nullptr;
}

// Those that have no name any more end in " (deleted)".
void remove_files()
{
    std::ifstream maps("/proc/self/maps");
    constexpr std::string_view kOurs = "/dev/shm/nccl-";
    for (std::string line; std::getline(maps, line);) {
        const size_t at = line.find(kOurs);
        if (at == line.npos || line.ends_with(" (deleted)")) continue;
        const std::string path = line.substr(at);
        if (path.find('/', kOurs.size()) == path.npos) unlink(path.c_str());
    }
}

std::string Library::last_error()
{
    const auto f = reinterpret_cast<const char *(*)(void *)>(function("ncclGetLastError"));
    const char *const text = f ? f(nullptr) : nullptr;
    return text ? std::string(text, strnlen(text, 1000)) : std::string();
}

}  // namespace rgpu::worker::nccl
