// SPDX-License-Identifier: Apache-2.0
#include "view/files.h"

#include <criterion/criterion.h>

#include <set>

using namespace rgpu;
using namespace rgpu::view;

static const std::vector<Gpu> kGpus = {{"GPU-a", "First", "7123:01:00.0"},
                                       {"GPU-b", "Second", "7123:02:00.0"}};

static const File *find(const std::vector<File> &files, const std::string &path)
{
    for (const File &file : files)
        if (file.path == path) return &file;
    return nullptr;
}

Test(files, the_driver_tells_each_gpu)
{
    const auto files = driver_files(kGpus);
    const File *second = find(files, "nvidia/gpus/7123:02:00.0/information");
    cr_assert(second);
    cr_assert(second->text.find("Model: \t\t Second\n") != std::string::npos);
    cr_assert(second->text.find("GPU UUID: \t GPU-b\n") != std::string::npos);
    cr_assert(second->text.find("Device Minor: \t 1\n") != std::string::npos);
    cr_assert(find(files, "nvidia/version")->text.starts_with("NVRM version: "));
}

Test(files, a_device_has_what_programs_read)
{
    const auto files = pci_files(kGpus, -1);
    cr_assert_eq(find(files, "7123:01:00.0/vendor")->text, "0x10de\n");
    cr_assert_eq(find(files, "7123:01:00.0/class")->text, "0x030200\n");
    cr_assert_eq(find(files, "7123:02:00.0/numa_node")->text, "-1\n");
    const std::string config = find(files, "7123:01:00.0/config")->text;
    cr_assert_eq(config.size(), 256u);
    cr_assert_eq(config.substr(0, 2), "\xde\x10");
    cr_assert_eq(config.substr(9, 3), std::string("\x00\x02\x03", 3));
}

Test(files, no_two_have_one_path_and_none_leads_out)
{
    std::set<std::string> paths;
    for (const auto &files : {driver_files(kGpus), pci_files(kGpus, 0), bus_links(kGpus)})
        for (const File &file : files) {
            cr_assert(paths.insert(file.path).second, "%s", file.path.c_str());
            cr_assert(file.path[0] != '/' && file.path.find("..") == std::string::npos);
        }
}

Test(files, a_bus_leads_to_its_device)
{
    const auto links = bus_links(kGpus);
    cr_assert_eq(links[1].path, "7123:02");
    cr_assert_eq(links[1].text, "../../bus/pci/devices/7123:02:00.0/pci_bus");
}
