// SPDX-License-Identifier: Apache-2.0
#include "plugin/spank/step_gpus.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "slurm/terms/paths.h"
#include "util/fd.h"
#include "util/json_reader.h"

namespace rgpu::plugin {
namespace {

constexpr size_t kMostLease = 1 << 20;
constexpr std::chrono::milliseconds kLook{50};
// srun waits ten minutes for its tasks to start.
constexpr std::chrono::minutes kLimit{8};

std::vector<Fd> reserved;  // as long as slurmstepd lives

// One of the GPUs if nobody has it.
Fd try_gpu(const std::string &path)
{
    Fd file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    return file && flock(file.get(), LOCK_EX | LOCK_NB) == 0 ? std::move(file) : Fd();
}

}  // namespace

Result<unsigned> gpus_in_lease(const std::string &lease_path)
{
    Fd file(open(lease_path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) return error(ErrorKind::unavailable, "%s: %s", lease_path.c_str(), strerror(errno));
    std::string text;
    char buffer[4096];
    for (ssize_t n; text.size() < kMostLease && (n = read(file.get(), buffer, sizeof buffer)) > 0;)
        text.append(buffer, static_cast<size_t>(n));
    auto json = Json::parse(text);
    if (!json) return std::move(json).error().in(lease_path);
    unsigned gpus = 0;
    if (const Json *servers = json->get("servers"); servers && servers->array())
        for (const Json &server : *servers->array())
            if (const Json *list = server.get("gpus"); list && list->array())
                gpus += static_cast<unsigned>(list->array()->size());
    return gpus;
}

Result<std::vector<unsigned>> reserve_gpus(const std::string &lease_path, unsigned count)
{
    auto all = gpus_in_lease(lease_path);
    if (!all) return std::move(all).error();
    if (count > *all)
        return error(ErrorKind::invalid, "--rgpus-per-step=%u, but the job has %u on this node",
                     count, *all);
    auto end = std::chrono::steady_clock::now() + kLimit;
    for (;;) {
        std::vector<unsigned> places;
        std::vector<Fd> files;
        for (unsigned place = 0; place < *all && places.size() < count; ++place)
            if (Fd file = try_gpu(slurm::gpu_path(lease_path, place))) {
                places.push_back(place);
                files.push_back(std::move(file));
            }
        if (places.size() == count) {
            reserved = std::move(files);
            return places;
        }
        // All or none, so that two steps never wait for each other.
        files.clear();
        if (std::chrono::steady_clock::now() >= end)
            return error(ErrorKind::unavailable,
                         "other steps of the job have its GPUs on this node; --rgpus-per-step=%u "
                         "found %zu free "
                         "of %u",
                         count, places.size(), *all);
        std::this_thread::sleep_for(kLook);
    }
}

}  // namespace rgpu::plugin
