// SPDX-License-Identifier: Apache-2.0
// What counts as a sign of NVIDIA on a host.
#include <criterion/criterion.h>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "util/nvidia_host.h"

using namespace rgpu;

namespace {

struct Root {
    Root()
    {
        char name[] = "/tmp/nvidia_host_test.XXXXXX";
        path = mkdtemp(name);
    }
    ~Root() { std::filesystem::remove_all(path); }
    void put(const std::string &file, const std::string &text) const
    {
        std::filesystem::create_directories(std::filesystem::path(path + file).parent_path());
        std::ofstream(path + file) << text << "\n";
    }
    std::string path;
};

}  // namespace

Test(nvidia_host, finds_nothing_on_a_host_without)
{
    Root root;
    cr_expect(nvidia_sign(root.path).empty());
    root.put("/sys/bus/pci/devices/0000:00:02.0/vendor", "0x8086");
    root.put("/sys/bus/pci/devices/0000:00:02.0/class", "0x030000");
    root.put("/sys/bus/pci/devices/0000:3b:00.1/vendor", "0x10de");
    root.put("/sys/bus/pci/devices/0000:3b:00.1/class", "0x040300");
    cr_expect(nvidia_sign(root.path).empty(), "another's display, and NVIDIA's sound card");
}

Test(nvidia_host, names_the_card_whose_driver_is_not_loaded)
{
    Root root;
    root.put("/sys/bus/pci/devices/0000:3b:00.0/vendor", "0x10de");
    root.put("/sys/bus/pci/devices/0000:3b:00.0/class", "0x030200");
    cr_expect(nvidia_sign(root.path) == "PCI device 0000:3b:00.0 is a GPU of NVIDIA's");
}

Test(nvidia_host, names_the_driver_that_is_loaded)
{
    Root root;
    root.put("/proc/driver/nvidia/version", "NVRM version");
    cr_expect(nvidia_sign(root.path) == "/proc/driver/nvidia/version is there");
}
