// SPDX-License-Identifier: Apache-2.0
// What the kernel says of devices for RDMA, in folders of the test's own.
#include "net/ucx/rdma.h"

#include <criterion/criterion.h>

#include <filesystem>
#include <fstream>

using namespace rgpu::net;
namespace fs = std::filesystem;

namespace {

struct Host {
    fs::path root;
    Host()
    {
        char name[] = "/tmp/rgpu-rdma-XXXXXX";
        root = mkdtemp(name);
    }
    ~Host() { fs::remove_all(root); }
    void put(const std::string &file, const std::string &text) const
    {
        fs::create_directories((root / file).parent_path());
        std::ofstream(root / file) << text;
    }
    bool rdma() const { return has_rdma(root / "sys", root / "dev"); }
};

}  // namespace

Test(rdma, a_host_without_devices_has_none)
{
    Host h;
    cr_expect(!h.rdma());
    h.put("dev/uverbs0", "");
    cr_expect(!h.rdma());
}

Test(rdma, a_port_must_be_up_and_its_device_to_be_opened)
{
    Host h;
    h.put("sys/mlx5_0/ports/1/state", "1: DOWN\n");
    h.put("dev/uverbs0", "");
    cr_expect(!h.rdma(), "down");
    h.put("sys/mlx5_1/ports/1/state", "4: ACTIVE\n");
    cr_expect(h.rdma());
    fs::remove(h.root / "dev/uverbs0");
    cr_expect(!h.rdma(), "a container that was not given the device");
    h.put("dev/rdma_cm", "");
    cr_expect(!h.rdma());
}
