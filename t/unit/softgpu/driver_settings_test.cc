// SPDX-License-Identifier: Apache-2.0
// What the environment says: sizes, and CUDA_VISIBLE_DEVICES by CUDA's rules.
#include "softgpu/driver/base/settings.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "util/visible_devices.h"

using namespace rgpu::softgpu::driver;
using rgpu::visible_devices;
using List = std::vector<int>;

static const std::vector<std::string> kUuids = {
    "GPU-11111111-0000-8000-8000-000000000000", "GPU-22222222-0000-8000-8000-000000000000",
    "GPU-2222ffff-0000-8000-8000-000000000000", "GPU-33333333-0000-8000-8000-000000000000"};

Test(driver_settings, visible_devices_follow_cudas_rules)
{
    cr_expect(visible_devices(nullptr, kUuids) == (List{0, 1, 2, 3}));
    cr_expect(visible_devices("", kUuids) == List{});
    cr_expect(visible_devices("2,0", kUuids) == (List{2, 0}));
    cr_expect(visible_devices(" 1 , 3 ", kUuids) == (List{1, 3}));
    cr_expect(visible_devices("1,7,0", kUuids) == List{1}, "ends at what is not there");
    cr_expect(visible_devices("1,-1,0", kUuids) == List{1});
    cr_expect(visible_devices("1,1,0", kUuids) == List{1}, "ends at what was named before");
    cr_expect(visible_devices("nonsense", kUuids) == List{});
    cr_expect(visible_devices("GPU-33333333-0000-8000-8000-000000000000,GPU-1", kUuids) ==
              (List{3, 0}));
    cr_expect(visible_devices("gpu-2222ffff", kUuids) == List{2});
    cr_expect(visible_devices("0,GPU-2222", kUuids) == List{0}, "a prefix of two names none");
    cr_expect(visible_devices("GPU-", kUuids) == List{});
}

Test(driver_settings, sizes_have_units)
{
    cr_expect_eq(*parse_bytes("4096"), 4096);
    cr_expect_eq(*parse_bytes("512M"), 512u << 20);
    cr_expect_eq(*parse_bytes("2g"), uint64_t{2} << 30);
    cr_expect_eq(*parse_bytes("1.5GiB"), uint64_t{3} << 29);
    for (const char *bad : {"", "G", "2X", "-1", "2G2", "1e30"})
        cr_expect(!parse_bytes(bad), "%s", bad);
}

Test(driver_settings, wrong_values_are_named)
{
    setenv("RGPU_SOFTGPU_DEVICES", "many", 1);
    auto s = Settings::from_environment();
    cr_assert(!s);
    cr_expect(s.error().text.find("RGPU_SOFTGPU_DEVICES=many") != std::string::npos);
    setenv("RGPU_SOFTGPU_DEVICES", "3", 1);
    setenv("RGPU_SOFTGPU_MEMORY", "1", 1);
    cr_expect(!Settings::from_environment());
    setenv("RGPU_SOFTGPU_MEMORY", "64M", 1);
    setenv("RGPU_SOFTGPU_COMPUTE_CAPABILITY", "12.1", 1);
    s = Settings::from_environment();
    cr_assert(s.has_value());
    cr_expect_eq(s->devices, 3);
    cr_expect_eq(s->memory, 64u << 20);
    cr_expect_eq(s->compute_capability(), 121);
    cr_expect(!s->low_addresses);
    setenv("RGPU_SOFTGPU_ADDRESSES", "low", 1);
    cr_expect(Settings::from_environment()->low_addresses);
    setenv("RGPU_SOFTGPU_ADDRESSES", "high", 1);
    s = Settings::from_environment();
    cr_expect(!s && s.error().text.find("RGPU_SOFTGPU_ADDRESSES=high") != std::string::npos);
}
