// SPDX-License-Identifier: Apache-2.0
// The devices of the software driver as NVML knows them, for answers.cc and exports.cc. nvml.h is
// not needed: results are calls/nvml.h's numbers.
//
// The driver is the libcuda.so.1 beside this library, which is opened by the first init() and
// stays. Any thread. A handle is a device's number plus one; it is good as long as NVML is
// initialised.
#pragma once

#include <cstdint>
#include <optional>

#include <cuda.h>

namespace rgpu::softgpu::nvml {

// What is asked of it.
struct Driver {
    decltype(&::cuInit) init;
    decltype(&::cuDriverGetVersion) version;
    decltype(&::cuDeviceGetCount) count;
    decltype(&::cuDeviceGetName) name;
    decltype(&::cuDeviceGetUuid_v2) uuid;
    decltype(&::cuDeviceGetPCIBusId) address;
    decltype(&::cuDeviceGetByPCIBusId) by_address;
    decltype(&::cuDeviceGetAttribute) attribute;
    decltype(&::cuDeviceTotalMem_v2) total_memory;
    decltype(&::cuDeviceCanAccessPeer) can_access_peer;
    uint64_t (*memory_used)(int device);  // rgpu_softgpu_memory_used
    const char *(*release)();             // rgpu_softgpu_driver_release
};
// Behind an init() that went well.
const Driver &driver();

using Handle = void *;

// Both count; init() fails with NVML_ERROR_DRIVER_NOT_LOADED (9) where there is no such driver.
int init();
int shutdown();

bool initialised();
int device_count();
inline Handle handle_of(int device) { return reinterpret_cast<Handle>(intptr_t{device} + 1); }
// Nothing for what handle_of() did not give.
std::optional<int> device_of(Handle);
// Why nothing can be said of it, or success.
int check(Handle);

}  // namespace rgpu::softgpu::nvml
