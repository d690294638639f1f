// SPDX-License-Identifier: Apache-2.0
// What is of the node that the program runs on: its processors, and the processes that use the
// GPUs.
#include <algorithm>
#include <cstring>
#include <fstream>

#include "nvml/answers.h"
#include "nvml/processes.h"
#include "nvml/use.h"

namespace {

using namespace rgpu;
using namespace rgpu::nvml;

// The kernel's list ("0-3,8") as bits: every GPU is as near to one of them as to any.
nvmlReturn_t give_all(const char *path, unsigned size, unsigned long *set)
{
    if (!set || !size) return NVML_ERROR_INVALID_ARGUMENT;
    constexpr unsigned kBits = 8 * sizeof *set;
    std::fill_n(set, size, 0ul);
    std::ifstream in(path);
    unsigned first = 0, last = 0;
    for (char c = ','; c == ',' && in >> first; in >> c) {
        last = first;
        if (in.peek() == '-') in.get(), in >> last;
        for (unsigned i = first; i <= last && i / kBits < size; i++)
            set[i / kBits] |= 1ul << i % kBits;
        c = 0;
    }
    if (std::all_of(set, set + size, [](unsigned long word) { return !word; })) set[0] = 1;
    return NVML_SUCCESS;
}

constexpr const char *kProcessors = "/sys/devices/system/cpu/online";
constexpr const char *kNodes = "/sys/devices/system/node/online";

template <class Info> nvmlReturn_t processes(nvmlDevice_t handle, unsigned *count, Info *infos)
{
    return with(handle, [&](Device &d) -> nvmlReturn_t {
        if (!count) return NVML_ERROR_INVALID_ARGUMENT;
        const auto found = processes_on(*pool_in_use(), d);
        const unsigned room = infos ? *count : 0;
        *count = static_cast<unsigned>(found.size());
        if (room < found.size()) return NVML_ERROR_INSUFFICIENT_SIZE;
        for (size_t i = 0; i < found.size(); i++) {
            memset(&infos[i], 0xff, sizeof infos[i]);  // of no instance
            infos[i].pid = found[i].pid;
            infos[i].usedGpuMemory = found[i].memory;
        }
        return NVML_SUCCESS;
    });
}

// Graphics, and MPS: none.
nvmlReturn_t no_processes(nvmlDevice_t handle, unsigned *count, const void *)
{
    return with(handle, [&](Device &) { return give(count, 0); });
}

}  // namespace

namespace rgpu::nvml::answers {

nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned size, unsigned long *set)
{
    return with(device, [&](Device &) { return give_all(kProcessors, size, set); });
}
nvmlReturn_t nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t device, unsigned size,
                                                 unsigned long *set, nvmlAffinityScope_t)
{
    return answers::nvmlDeviceGetCpuAffinity(device, size, set);
}
nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned size, unsigned long *set,
                                         nvmlAffinityScope_t)
{
    return with(device, [&](Device &) { return give_all(kNodes, size, set); });
}

nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device, nvmlGpuTopologyLevel_t level,
                                              unsigned *count, nvmlDevice_t *devices)
{
    return with_pool([&](Pool &p) -> nvmlReturn_t {
        if (!count || !p.find(device)) return NVML_ERROR_INVALID_ARGUMENT;
        unsigned found = 0;
        for (auto &d : p.devices) {
            const auto other = reinterpret_cast<nvmlDevice_t>(d.get());
            nvmlGpuTopologyLevel_t between = NVML_TOPOLOGY_SYSTEM;
            if (other == device || ::nvmlDeviceGetTopologyCommonAncestor(device, other, &between) ||
                between != level)
                continue;
            if (devices && found < *count) devices[found] = other;
            found++;
        }
        if (devices && found > *count) return NVML_ERROR_INSUFFICIENT_SIZE;
        return give(count, found);
    });
}
nvmlReturn_t nvmlSystemGetTopologyGpuSet(unsigned, unsigned *count, nvmlDevice_t *devices)
{
    return with_pool([&](Pool &p) -> nvmlReturn_t {
        if (!count) return NVML_ERROR_INVALID_ARGUMENT;
        for (unsigned i = 0; devices && i < std::min<size_t>(*count, p.devices.size()); i++)
            devices[i] = reinterpret_cast<nvmlDevice_t>(p.devices[i].get());
        return give(count, p.devices.size());
    });
}
nvmlReturn_t nvmlSystemGetHicVersion(unsigned *count, nvmlHwbcEntry_t *)
{
    return with_pool([&](Pool &) { return give(count, 0); });
}

// The three forms of a list of processes, which differ in the struct.
#define PROCESS_LIST(name, answer) \
    nvmlReturn_t name##_v3(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *infos) \
    { \
        return answer(device, count, infos); \
    } \
    nvmlReturn_t name##_v2(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v2_t *infos) \
    { \
        return answer(device, count, infos); \
    } \
    nvmlReturn_t name(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v1_t *infos) \
    { \
        return answer(device, count, infos); \
    }
PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses, processes)
PROCESS_LIST(nvmlDeviceGetGraphicsRunningProcesses, no_processes)
PROCESS_LIST(nvmlDeviceGetMPSComputeRunningProcesses, no_processes)
#undef PROCESS_LIST

// No samples are taken of single processes: as where none ran since then.
nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *,
                                             unsigned *count, unsigned long long)
{
    return with(device, [&](Device &) -> nvmlReturn_t {
        if (nvmlReturn_t r = give(count, 0)) return r;
        return NVML_ERROR_NOT_FOUND;
    });
}
nvmlReturn_t nvmlDeviceGetEncoderStats(nvmlDevice_t device, unsigned *sessions, unsigned *rate,
                                       unsigned *latency)
{
    return with(device, [&](Device &) -> nvmlReturn_t {
        if (!sessions || !rate || !latency) return NVML_ERROR_INVALID_ARGUMENT;
        *sessions = *rate = *latency = 0;
        return NVML_SUCCESS;
    });
}
nvmlReturn_t nvmlDeviceGetEncoderSessions(nvmlDevice_t device, unsigned *count,
                                          nvmlEncoderSessionInfo_t *)
{
    return with(device, [&](Device &) { return give(count, 0); });
}
nvmlReturn_t nvmlDeviceGetFBCStats(nvmlDevice_t device, nvmlFBCStats_t *stats)
{
    return with(device, [&](Device &) { return give(stats, nvmlFBCStats_t{}); });
}

}  // namespace rgpu::nvml::answers
