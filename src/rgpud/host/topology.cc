// SPDX-License-Identifier: Apache-2.0
#include "rgpud/host/topology.h"

#include <hwloc.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>

#include "util/log.h"

namespace rgpu::serverd {
namespace {

using pool::Link;
using Object = hwloc_obj_t;

// How far apart two GPUs are that are joined so. The steps between GPUs outweigh those to the card,
// so that the card decides among sets that lie equally close together.
int distance(Link link)
{
    switch (link) {
    case Link::self: return 0;
    case Link::nv: return 100;
    case Link::pix: return 200;
    case Link::pxb: return 300;
    case Link::phb: return 400;
    case Link::node: return 600;
    case Link::sys:
    case Link::unknown: break;
    }
    return 1000;
}
int distance_to_card(Link link) { return distance(link) / 100; }

struct Host {
    hwloc_topology_t topology = nullptr;
    Host()
    {
        hwloc_topology_init(&topology);
        hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL);
        if (hwloc_topology_load(topology) != 0) {
            hwloc_topology_destroy(topology);
            topology = nullptr;
        }
    }
    ~Host()
    {
        if (topology) hwloc_topology_destroy(topology);
    }
    Host(const Host &) = delete;
    Host &operator=(const Host &) = delete;
};

// The interface of the default route, by /proc/net/route: the one whose destination is 00000000.
std::string default_card()
{
    std::ifstream routes("/proc/net/route");
    for (std::string line; std::getline(routes, line);) {
        std::istringstream words(line);
        std::string interface, destination;
        if (words >> interface >> destination && destination == "00000000") return interface;
    }
    return "";
}

Object card_object(hwloc_topology_t topology, const std::string &name)
{
    for (Object os = nullptr; (os = hwloc_get_next_osdev(topology, os));)
        if (os->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK && os->name && name == os->name)
            return os;
    return nullptr;
}

bool is_bridge(Object object) { return object->type == HWLOC_OBJ_BRIDGE; }

// In the words of nvidia-smi topo -m.
Link link_between(hwloc_topology_t topology, Object a, Object b)
{
    if (!a || !b) return Link::unknown;
    std::vector<Object> above;
    for (Object up = a; up; up = up->parent) above.push_back(up);
    Object common = b;
    while (std::find(above.begin(), above.end(), common) == above.end()) common = common->parent;
    auto bridges = [common](Object from) {
        int count = 0;
        for (; from != common; from = from->parent) count += is_bridge(from);
        return count;
    };
    if (!is_bridge(common)) {
        Object machine = hwloc_get_root_obj(topology);
        bool one_node = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE) <= 1 ||
                        (common != machine && hwloc_bitmap_weight(common->nodeset) <= 1);
        return one_node ? Link::node : Link::sys;
    }
    if (common->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST) return Link::phb;
    return std::max(bridges(a), bridges(b)) <= 1 ? Link::pix : Link::pxb;
}

std::vector<int> cpus_near(hwloc_topology_t topology, Object gpu)
{
    std::vector<int> cpus;
    Object near = hwloc_get_non_io_ancestor_obj(topology, gpu);
    if (!near || !near->cpuset ||
        hwloc_bitmap_isequal(near->cpuset, hwloc_get_root_obj(topology)->cpuset))
        return cpus;
    for (int cpu = -1; (cpu = hwloc_bitmap_next(near->cpuset, cpu)) >= 0;) cpus.push_back(cpu);
    return cpus;
}

int numa_of(hwloc_topology_t topology, Object gpu)
{
    Object near = hwloc_get_non_io_ancestor_obj(topology, gpu);
    return near && near->nodeset && hwloc_bitmap_weight(near->nodeset) == 1
               ? hwloc_bitmap_first(near->nodeset)
               : -1;
}

// "0-7,16".
std::string list_text(const std::vector<int> &numbers)
{
    std::string text;
    for (size_t i = 0; i < numbers.size();) {
        size_t end = i;
        while (end + 1 < numbers.size() && numbers[end + 1] == numbers[end] + 1) ++end;
        text += (text.empty() ? "" : ",") + std::to_string(numbers[i]);
        if (end > i) text += "-" + std::to_string(numbers[end]);
        i = end + 1;
    }
    return text;
}

}  // namespace

std::vector<int> Topology::cpus_of(const std::vector<size_t> &chosen) const
{
    std::vector<int> all;
    for (size_t i : chosen) {
        if (i >= gpus.size() || gpus[i].cpus.empty()) return {};
        all.insert(all.end(), gpus[i].cpus.begin(), gpus[i].cpus.end());
    }
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
}

Topology look_at_topology(const Driver &driver, const std::string &card,
                          const std::vector<std::vector<int>> &nvlink)
{
    Topology found;
    const auto &gpus = driver.inventory.gpus;
    found.gpus.resize(gpus.size());
    found.links.assign(gpus.size(), std::vector<Link>(gpus.size(), Link::unknown));
    if (driver.software && !getenv("HWLOC_XMLFILE")) return found;
    Host host;
    if (!host.topology) {
        log_warning("hwloc cannot read this host's topology: GPUs are chosen without it");
        return found;
    }
    found.card = card.empty() ? default_card() : card;
    Object card_at = card_object(host.topology, found.card);
    if (!card.empty() && !card_at)
        log_warning("[rgpud] network_interface: hwloc knows no interface \"%s\"", card.c_str());
    std::vector<Object> at;
    for (size_t i = 0; i < gpus.size(); ++i) {
        at.push_back(hwloc_get_pcidev_by_busidstring(host.topology, gpus[i].pci.c_str()));
        if (!at[i]) continue;
        found.gpus[i].numa = numa_of(host.topology, at[i]);
        found.gpus[i].cpus = cpus_near(host.topology, at[i]);
    }
    if (std::none_of(at.begin(), at.end(), [](Object object) { return object != nullptr; }))
        return found;
    found.distances.assign(gpus.size(), std::vector<int>(gpus.size(), 0));
    for (size_t a = 0; a < gpus.size(); ++a)
        for (size_t b = 0; b < gpus.size(); ++b) {
            bool joined = a < nvlink.size() && b < nvlink[a].size() && nvlink[a][b];
            Link link = a == b   ? link_between(host.topology, at[a], card_at)
                        : joined ? Link::nv
                                 : link_between(host.topology, at[a], at[b]);
            found.links[a][b] = link;
            found.distances[a][b] = a != b ? distance(link) : card_at ? distance_to_card(link) : 0;
        }
    return found;
}

pool::Topology describe(const Topology &topology, const std::string &server,
                        const std::vector<pool::GpuState> &gpus)
{
    pool::Topology out;
    out.name = server;
    out.card = topology.card;
    for (size_t i = 0; i < gpus.size() && i < topology.gpus.size(); ++i) {
        out.gpus.push_back({gpus[i].index,
                            gpus[i].uuid,
                            gpus[i].name,
                            gpus[i].pci,
                            topology.gpus[i].numa,
                            list_text(topology.gpus[i].cpus),
                            {}});
        for (Link link : topology.links[i]) out.gpus.back().links.push_back(link);
    }
    return out;
}

}  // namespace rgpu::serverd
