// SPDX-License-Identifier: Apache-2.0
// topo -m: how the GPUs are connected with each other, on their server.
#include <cstring>
#include <fstream>

#include "smi/facts.h"
#include "smi/views.h"

namespace rgpu::smi {
namespace {

constexpr unsigned kMostLinks = 18;

unsigned nvlinks(nvmlDevice_t from, nvmlDevice_t to)
{
    nvmlPciInfo_t there{};
    if (ASK(nvmlDeviceGetPciInfo_v3, to, &there)) return 0;
    unsigned count = 0;
    for (unsigned link = 0; link < kMostLinks; link++) {
        nvmlEnableState_t active{};
        nvmlPciInfo_t remote{};
        if (!ASK(nvmlDeviceGetNvLinkState, from, link, &active) && active &&
            !ASK(nvmlDeviceGetNvLinkRemotePciInfo_v2, from, link, &remote))
            count += !strcmp(remote.busId, there.busId);
    }
    return count;
}

std::string between(nvmlDevice_t from, nvmlDevice_t to)
{
    if (from == to) return " X ";
    if (unsigned links = nvlinks(from, to)) return "NV" + std::to_string(links);
    nvmlGpuTopologyLevel_t level = NVML_TOPOLOGY_SYSTEM;
    if (ASK(nvmlDeviceGetTopologyCommonAncestor, from, to, &level)) return "N/A";
    switch (level) {
    case NVML_TOPOLOGY_INTERNAL:
    case NVML_TOPOLOGY_SINGLE: return "PIX";
    case NVML_TOPOLOGY_MULTIPLE: return "PXB";
    case NVML_TOPOLOGY_HOSTBRIDGE: return "PHB";
    case NVML_TOPOLOGY_NODE: return "NODE";
    default: return "SYS";
    }
}

std::string first_line(const char *path)
{
    std::ifstream in(path);
    std::string line;
    return std::getline(in, line) && !line.empty() ? line : "N/A";
}

constexpr const char *kLegend =
    "\nLegend:\n\n"
    "  X    = Self\n"
    "  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes "
    "(e.g., QPI/UPI), or the network between two servers\n"
    "  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges "
    "within a NUMA node\n"
    "  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)\n"
    "  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host "
    "Bridge)\n"
    "  PIX  = Connection traversing at most a single PCIe bridge\n"
    "  NV#  = Connection traversing a bonded set of # NVLinks\n";

}  // namespace

std::string topology(const std::vector<nvmlDevice_t> &devices)
{
    std::string all;
    for (nvmlDevice_t d : devices) all += "\tGPU" + told("index", d);
    all += "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n";
    const std::string tail = "\t" + first_line("/sys/devices/system/cpu/online") + "\t" +
                             first_line("/sys/devices/system/node/online") + "\t\tN/A\n";
    for (nvmlDevice_t from : devices) {
        all += "GPU" + told("index", from);
        for (nvmlDevice_t to : devices) all += "\t" + between(from, to);
        all += tail;
    }
    return all + kLegend;
}

}  // namespace rgpu::smi
