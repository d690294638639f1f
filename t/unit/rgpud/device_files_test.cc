// SPDX-License-Identifier: Apache-2.0
#include "rgpud/host/device_files.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

using namespace rgpu;
using namespace rgpu::serverd;
namespace fs = std::filesystem;

namespace {

// A host with four GPUs, as NVIDIA's driver shows it; the third has no file that says which it is.
struct Host {
    std::string root;
    Host()
    {
        char path[] = "/tmp/rgpu-devices-XXXXXX";
        root = mkdtemp(path);
        fs::create_directories(dev() + "/shm");
        fs::create_directories(dev() + "/nvidia-caps");
        for (const char *name :
             {"null", "zero", "full", "random", "urandom", "kmsg", "sda", "nvidiactl", "nvidia-uvm",
              "nvidia-uvm-tools", "nvidia-modeset", "nvidia0", "nvidia1", "nvidia2", "nvidia3"})
            std::ofstream(dev() + "/" + name).put('x');
        for (int i : {0, 1, 3}) {
            fs::path gpu = proc() + "/gpus/0000:0" + std::to_string(i) + ":00.0";
            fs::create_directories(gpu);
            // The order of the files is not that of the numbers.
            std::ofstream(gpu / "information")
                << "Model: \t\t NVIDIA H100\nIRQ:   \t\t 30\nGPU UUID: \t GPU-" << 3 - i
                << "\nVideo BIOS: \t 96.00\nDevice Minor: \t " << i << "\nGPU Excluded:\t No\n";
        }
    }
    ~Host() { fs::remove_all(root); }
    std::string dev() const { return root + "/dev"; }
    std::string proc() const { return root + "/proc"; }
    std::string names(bool software, const std::vector<std::string> &uuids) const
    {
        std::string all;
        for (const std::string &name : device_names(software, uuids, dev(), proc()))
            all += name + " ";
        return all;
    }
};

void expect(const std::string &got, const std::string &wanted)
{
    cr_assert(got == wanted, "got %s, wanted %s", got.c_str(), wanted.c_str());
}

const std::string kPlain = "full null random urandom zero ";

}  // namespace

Test(device_files, software_gpus_need_none)
{
    Host host;
    expect(host.names(true, {"GPU-0"}), kPlain);
}

Test(device_files, a_lease_gets_its_own_gpu_and_no_other)
{
    Host host;
    expect(host.names(false, {"GPU-0"}),
           "full null nvidia-uvm nvidia-uvm-tools nvidia3 nvidiactl random urandom zero ");
    expect(host.names(false, {"GPU-3", "GPU-2"}),
           "full null nvidia-uvm nvidia-uvm-tools nvidia0 nvidia1 nvidiactl random urandom zero ");
}

Test(device_files, all_where_none_is_named_or_the_driver_does_not_tell)
{
    Host host;
    const std::string all = "full null nvidia-uvm nvidia-uvm-tools nvidia0 nvidia1 nvidia2 nvidia3 "
                            "nvidiactl random urandom zero ";
    expect(host.names(false, {}), all);
    expect(host.names(false, {"GPU-of-another-name"}), all);
}

Test(device_files, a_part_of_a_gpu_needs_its_capabilities)
{
    Host host;
    cr_assert_neq(host.names(false, {"MIG-1"}).find("nvidia-caps "), std::string::npos);
}
