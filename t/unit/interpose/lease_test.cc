// SPDX-License-Identifier: Apache-2.0
// What a lease file says of servers and their GPUs, and what a program sees of them.
#include "interpose/base/lease.h"

#include <criterion/criterion.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "calls/uuid.h"
#include "interpose/base/addresses.h"
#include "util/pci_address.h"

using namespace rgpu;
using namespace rgpu::interpose;

namespace {

constexpr char kFirst[] = "GPU-00000000-0000-0000-0000-000000000001",
               kSecond[] = "GPU-00000000-0000-0000-0000-000000000002",
               kThird[] = "GPU-00000000-0000-0000-0000-000000000003";

Result<std::vector<LeaseServer>> read(const std::string &text)
{
    char name[] = "/tmp/lease_test.XXXXXX";
    const int fd = mkstemp(name);
    cr_assert_geq(fd, 0);
    close(fd);
    std::ofstream(name) << text;
    auto servers = read_lease(name);
    unlink(name);
    return servers;
}

std::string gpu(const char *uuid, int index, const std::string &more = "")
{
    return std::string("{\"uuid\": \"") + uuid +
           "\", \"name\": \"A GPU\", \"index\": " + std::to_string(index) + more + "}";
}
std::string server(const std::string &name, const std::string &gpus)
{
    return "{\"name\": \"" + name + "\", \"address\": \"" + name +
           ":7711\", \"lease\": \"l\", \"secret\": \"00ff\", \"gpus\": [" + gpus + "]}";
}
std::string lease(const std::string &servers) { return "{\"servers\": [" + servers + "]}"; }

}  // namespace

Test(lease, each_server_has_its_gpus_with_caps_and_addresses)
{
    const auto servers =
        read(lease(server("one", gpu(kFirst, 3, ", \"memory\": 1000") + "," + gpu(kSecond, 0)) +
                   "," + server("two", gpu(kThird, 3, ", \"memory\": -1"))));
    cr_assert(servers && servers->size() == 2);
    const LeaseServer &one = servers->at(0), &two = servers->at(1);
    cr_expect_str_eq(one.address.c_str(), "one:7711");
    cr_expect_eq(one.secret.size(), 2);
    cr_assert(one.gpus.size() == 2 && two.gpus.size() == 1);
    cr_expect_str_eq(one.gpus[0].uuid.c_str(), kFirst);
    cr_expect_str_eq(one.gpus[0].name.c_str(), "A GPU");
    cr_expect_eq(one.gpus[0].memory, 1000);
    cr_expect_str_eq(one.gpus[1].uuid.c_str(), kSecond);
    cr_expect_eq(one.gpus[1].memory, 0);
    cr_expect_str_eq(two.gpus[0].uuid.c_str(), kThird);
    cr_expect_eq(two.gpus[0].memory, 0);
    // As everything else that shows addresses has them: of the whole lease.
    const auto addresses = pci_addresses({{"one", 3}, {"one", 0}, {"two", 3}});
    cr_expect(one.gpus[0].pci == addresses[0] && one.gpus[1].pci == addresses[1] &&
              two.gpus[0].pci == addresses[2]);
}

Test(lease, server_without_gpus_has_none)
{
    const auto servers = read(lease(server("one", "") + "," + server("two", gpu(kThird, 0))));
    cr_assert(servers && servers->size() == 2);
    cr_expect(servers->at(0).gpus.empty());
    cr_expect_eq(servers->at(1).gpus.size(), 1);
}

Test(lease, what_is_no_lease_is_an_error)
{
    cr_expect_not(read("{"));
    cr_expect_not(read("{}"));
    cr_expect_not(read(lease("")));
    cr_expect_not(read(lease("{\"name\": \"one\"}")));
    cr_expect_not(read_lease("/nowhere/lease.json"));
}

Test(lease, only_devices_that_are_leased_get_an_address)
{
    wire::Snapshot snapshot;
    snapshot.devices.resize(2);
    for (size_t i = 0; i < 2; i++) {
        wire::DeviceSnapshot &d = snapshot.devices[i];
        d.uuid.bytes[15] = static_cast<char>(i + 1);
        d.pci_bus_id = "0000:01:00.0";
        d.attributes.resize(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID + 1);
        d.attribute_status.resize(d.attributes.size());
    }
    cr_assert(calls::uuid_text(snapshot.devices[1].uuid) == kSecond);
    readdress(snapshot, {{kSecond, "", 0, "7c2f:05:00.0"}, {kThird, "", 0, "7c2f:06:00.0"}});
    cr_expect_str_eq(snapshot.devices[0].pci_bus_id.c_str(), "0000:01:00.0");
    cr_expect_str_eq(snapshot.devices[1].pci_bus_id.c_str(), "7c2f:05:00.0");
    cr_expect_eq(snapshot.devices[1].attributes[CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID], 0x7c2f);
    cr_expect_eq(snapshot.devices[1].attributes[CU_DEVICE_ATTRIBUTE_PCI_BUS_ID], 5);
}
