// SPDX-License-Identifier: Apache-2.0
// What the environment says about the devices of this process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "util/result.h"
#include "util/software_gpu.h"

namespace rgpu::softgpu::driver {

constexpr int kMaxDevices = 16;
constexpr size_t kMaxName = 63;  // what NVML leaves room for

struct Settings {
    int devices = 1;                      // RGPU_SOFTGPU_DEVICES: 0..16
    uint64_t memory = uint64_t{2} << 30;  // RGPU_SOFTGPU_MEMORY: bytes of each, "512M", "2G"
    int major = 8, minor = 0;             // RGPU_SOFTGPU_COMPUTE_CAPABILITY: "8.0"
    std::string name = kSoftwareGpuName;  // RGPU_SOFTGPU_NAME
    std::string host;  // RGPU_SOFTGPU_HOST: directory that stands for the GPU host
    // RGPU_SOFTGPU_DEVICES_FILE: a descriptor of the file that this process shares with others,
    // instead of one in `host`, or "none", to share with nobody.
    std::optional<int> devices_file;
    bool shares = true;
    bool low_addresses = false;  // RGPU_SOFTGPU_ADDRESSES: "low" for programs under ThreadSanitizer

    // RGPU_SOFTGPU_LOADING: "waits" for the context's work, as NVIDIA's driver does when it loads a
    // module, or a kernel at its first use.
    bool loading_waits = false;

    static Result<Settings> from_environment();
    int compute_capability() const { return major * 10 + minor; }
};

// "64", "512M", "2G", "1.5G" -> bytes.
Result<uint64_t> parse_bytes(const std::string &);

}  // namespace rgpu::softgpu::driver
