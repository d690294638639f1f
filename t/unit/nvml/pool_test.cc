// SPDX-License-Identifier: Apache-2.0
// The GPUs of a lease, as NVML sees them.
#include "nvml/pool.h"

#include "lease.h"

using namespace rgpu;
using namespace rgpu::nvml;

TestSuite(pool, .fini = remove_lease);

Test(pool, lists_the_gpus_of_all_servers_in_the_lease_s_order)
{
    two_servers();
    Pool *pool = open_pool();
    cr_assert(pool);
    cr_assert_eq(pool->links.size(), 2u);
    cr_assert_eq(pool->devices.size(), 3u);
    const char *uuids[] = {"GPU-a", "GPU-b", "GPU-c"};
    for (unsigned i = 0; i < 3; ++i) {
        cr_expect_eq(pool->devices[i]->index, i);
        cr_expect_str_eq(pool->devices[i]->gpu.uuid.c_str(), uuids[i]);
        cr_expect_eq(pool->devices[i]->link, pool->links[i / 2].get());
    }
    cr_expect_eq(pool->devices[0]->gpu.memory, 1048576u);
    cr_expect_eq(pool->devices[1]->gpu.memory, 0u);
    cr_expect_eq(pool->devices[2]->gpu.memory, 0u, "one without a cap");
    cr_expect_str_eq(pool->devices[2]->gpu.name.c_str(), "NVIDIA H100");
}

Test(pool, there_is_none_without_a_lease)
{
    unsetenv("RGPU_LEASE");
    cr_expect(!open_pool());
    setenv("RGPU_LEASE", "", 1);
    cr_expect(!open_pool());
    setenv("RGPU_LEASE", "/nonexistent/lease.json", 1);
    cr_expect(!open_pool());
}

Test(pool, there_is_none_where_the_lease_file_is_none)
{
    for (const char *text : {"", "{", "[]", "{\"servers\": 3}", "{\"servers\": [{}]}"}) {
        write_lease(text);
        cr_expect(!open_pool(), "'%s' was taken for a lease", text);
        remove_lease();
    }
}

Test(pool, a_memory_that_is_no_number_is_no_cap)
{
    write_lease(R"({"servers": [{"address": "nowhere", "lease": "0123", "secret": "00", "gpus": [
        {"uuid": "GPU-a", "memory": -5}, {"uuid": "GPU-b", "memory": "much"},
        {"uuid": "GPU-c", "memory": 1e30}]}]})");
    Pool *pool = open_pool();
    cr_assert(pool && pool->devices.size() == 3);
    for (auto &device : pool->devices) cr_expect_eq(device->gpu.memory, 0u);
}

Test(pool, of_a_server_that_cannot_be_asked_nothing_is_known)
{
    two_servers();
    Pool *pool = open_pool();
    cr_assert(pool);
    Link &link = *pool->links[0];
    cr_expect(!link.snapshot("GPU-a"));
    cr_expect_eq(link.status("GPU-a").memory_used, wire::DeviceStatus::kUnknown);
    cr_expect_eq(link.driver_version(), 0);
    cr_expect_str_eq(link.driver_release().c_str(), "");
}
