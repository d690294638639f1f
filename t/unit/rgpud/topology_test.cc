// SPDX-License-Identifier: Apache-2.0
// Made-up hosts: two processors, each with its memory, PCI devices and a processor's number of its
// own.
#include "rgpud/host/topology.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include <criterion/criterion.h>

using namespace rgpu;
using namespace rgpu::serverd;
using pool::Link;

static std::string pci(int id, const char *bus, const char *kind, const std::string &inside = "")
{
    char text[512];
    snprintf(text, sizeof text,
             "<object type=\"PCIDev\" gp_index=\"%d\" pci_busid=\"0000:%s:00.0\" pci_type=\"%s "
             "[10de:2330] [10de:16c1] a1\" "
             "pci_link_speed=\"0.0\">%s</object>",
             id, bus, kind, inside.c_str());
    return text;
}

static std::string bridge(int id, const char *type, const char *buses, const std::string &inside)
{
    char text[256];
    snprintf(text, sizeof text,
             "<object type=\"Bridge\" gp_index=\"%d\" bridge_type=\"%s\" depth=\"0\" "
             "bridge_pci=\"0000:[%s]\"%s>",
             id, type, buses,
             type[0] == '1' ? " pci_busid=\"0000:00:01.0\" pci_type=\"0604 [8086:1901] [8086:2015] "
                              "07\" pci_link_speed=\"0.0\""
                            : "");
    return text + inside + "</object>";
}

static std::string package(int number, const std::string &io)
{
    char text[1024];
    const char *set = number ? "0x00000002" : "0x00000001";
    snprintf(text, sizeof text,
             "<object type=\"Package\" os_index=\"%d\" cpuset=\"%s\" complete_cpuset=\"%s\" "
             "nodeset=\"%s\" complete_nodeset=\"%s\" gp_index=\"%d\">"
             "<object type=\"NUMANode\" os_index=\"%d\" cpuset=\"%s\" complete_cpuset=\"%s\" "
             "nodeset=\"%s\" complete_nodeset=\"%s\" gp_index=\"%d\" "
             "local_memory=\"1073741824\"/>"
             "<object type=\"PU\" os_index=\"%d\" cpuset=\"%s\" complete_cpuset=\"%s\" "
             "nodeset=\"%s\" complete_nodeset=\"%s\" gp_index=\"%d\"/>",
             number, set, set, set, set, 10 + number, number, set, set, set, set, 20 + number,
             number, set, set, set, set, 30 + number);
    return text + io + "</object>";
}

// Four GPUs: 1 and 2 below one switch with the card eth7, 3 below the same processor's host bridge,
// 4 at the other processor.
static std::string host()
{
    const char *set = "0x00000003";
    char machine[512];
    snprintf(machine, sizeof machine,
             "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM "
             "\"hwloc2.dtd\">\n<topology version=\"2.0\">"
             "<object type=\"Machine\" os_index=\"0\" cpuset=\"%s\" complete_cpuset=\"%s\" "
             "allowed_cpuset=\"%s\" nodeset=\"%s\" "
             "complete_nodeset=\"%s\" allowed_nodeset=\"%s\" gp_index=\"1\">",
             set, set, set, set, set, set);
    std::string card = "<object type=\"OSDev\" gp_index=\"60\" name=\"eth7\" osdev_type=\"2\"/>";
    std::string below_switch =
        bridge(41, "1-1", "01-04",
               pci(51, "01", "0302") + pci(52, "02", "0302") + pci(54, "04", "0200", card));
    std::string first = bridge(40, "0-1", "00-05", below_switch + pci(53, "05", "0302"));
    std::string second = bridge(42, "0-1", "80-81", pci(55, "81", "0302"));
    return machine + package(0, first) + package(1, second) + "</object></topology>\n";
}

struct Made {
    char path[32] = "/tmp/rgpu-topology.XXXXXX";
    Made()
    {
        std::string xml = host();
        int fd = mkstemp(path);
        cr_assert(fd >= 0 && write(fd, xml.data(), xml.size()) == static_cast<ssize_t>(xml.size()));
        close(fd);
        setenv("HWLOC_XMLFILE", path, 1);
    }
    ~Made()
    {
        unlink(path);
        unsetenv("HWLOC_XMLFILE");
    }
};

static Driver driver(std::vector<const char *> addresses)
{
    Driver driver;
    driver.software = true;
    for (const char *address : addresses) {
        pool::GpuState gpu;
        gpu.index = static_cast<int>(driver.inventory.gpus.size());
        gpu.uuid = "GPU-" + std::string(address);
        gpu.pci = address;
        gpu.memory = gpu.free_memory = 1000;
        driver.inventory.gpus.push_back(gpu);
    }
    return driver;
}

static const std::vector<const char *> kFour = {"0000:01:00.0", "0000:02:00.0", "0000:05:00.0",
                                                "0000:81:00.0"};

Test(topology, links_in_the_words_of_nvidia_smi)
{
    Made made;
    Topology topology = look_at_topology(driver(kFour), "eth7", {});
    cr_assert_eq(topology.card, "eth7");
    cr_assert_eq(topology.links[0][1], Link::pix);
    cr_assert_eq(topology.links[0][2], Link::phb);
    cr_assert_eq(topology.links[0][3], Link::sys);
    cr_assert_eq(topology.links[2][1], Link::phb, "the same both ways");
    cr_assert_eq(topology.links[0][0], Link::pix, "to the card");
    cr_assert_eq(topology.links[2][2], Link::phb);
    cr_assert_eq(topology.links[3][3], Link::sys);
    cr_assert_lt(topology.distances[0][1], topology.distances[0][2]);
    cr_assert_lt(topology.distances[0][2], topology.distances[0][3]);
    cr_assert_lt(topology.distances[0][0], topology.distances[3][3]);
}

Test(topology, processors_near_a_gpu)
{
    Made made;
    Topology topology = look_at_topology(driver(kFour), "eth7", {});
    cr_assert_eq(topology.cpus_of({0}), std::vector<int>{0});
    cr_assert_eq(topology.cpus_of({3}), std::vector<int>{1});
    cr_assert_eq(topology.cpus_of({1, 3}), (std::vector<int>{0, 1}));
    cr_assert_eq(topology.gpus[2].numa, 0);
    cr_assert_eq(topology.gpus[3].numa, 1);
    pool::Topology told = describe(topology, "gpu1", driver(kFour).inventory.gpus);
    cr_assert_eq(told.gpus[3].cpus, "1");
    cr_assert_eq(told.gpus[3].links[0], Link::sys);
}

Test(topology, nvlink_is_nearer_than_all)
{
    Made made;
    std::vector<std::vector<int>> joined(4, std::vector<int>(4, 0));
    joined[0][3] = joined[3][0] = 1;
    Topology topology = look_at_topology(driver(kFour), "eth7", joined);
    cr_assert_eq(topology.links[0][3], Link::nv);
    cr_assert_lt(topology.distances[0][3], topology.distances[0][1]);
}

static std::vector<size_t> chosen(const Topology &topology, const std::vector<pool::GpuState> &gpus,
                                  int count)
{
    pool::Request request;
    request.gpus = count;
    return pool::place(gpus, request, topology.distances).chosen;
}

Test(topology, placement_takes_what_is_near)
{
    Made made;
    Driver all = driver({"0000:81:00.0", "0000:05:00.0", "0000:02:00.0", "0000:01:00.0"});
    Topology topology = look_at_topology(all, "eth7", {});
    auto gpus = all.inventory.gpus;
    cr_assert_eq(chosen(topology, gpus, 1), std::vector<size_t>{2},
                 "one GPU: the first of those beside the card");
    cr_assert_eq(chosen(topology, gpus, 2), (std::vector<size_t>{2, 3}),
                 "two: those below one switch");
    cr_assert_eq(chosen(topology, gpus, 3), (std::vector<size_t>{1, 2, 3}),
                 "three: those of one processor");
    gpus[3].free_share = 0;
    cr_assert_eq(chosen(topology, gpus, 2), (std::vector<size_t>{1, 2}));
}

Test(topology, where_nothing_is_known_nothing_is_preferred)
{
    Made made;
    Topology other = look_at_topology(driver({"0000:77:00.0", "0000:78:00.0"}), "eth7", {});
    cr_assert(other.distances.empty());
    cr_assert_eq(other.links[0][1], Link::unknown);
    cr_assert(other.cpus_of({0}).empty());
    Topology half = look_at_topology(driver({"0000:01:00.0", "0000:78:00.0"}), "", {});
    cr_assert_eq(half.links[0][1], Link::unknown);
    cr_assert(half.cpus_of({0, 1}).empty(), "one of them may be near any processor");
    unsetenv("HWLOC_XMLFILE");
    cr_assert(look_at_topology(driver(kFour), "", {}).distances.empty(),
              "software GPUs lie nowhere");
}
