// SPDX-License-Identifier: Apache-2.0
// How much of a device's memory is in use, asked without a context.
#pragma once

#include <optional>

#include "wire/status.h"
#include "worker/driver/driver.h"

namespace rgpu::worker {

// A symbol that only the software GPU's driver has.
inline constexpr const char *kSoftwareMark = "rgpu_softgpu_set_printf";

// NVML's word, which comes with NVIDIA's driver; nothing where that is not the driver.
std::optional<uint64_t> device_memory_in_use(const Driver &driver, int device);

// What this process holds of it: the software GPU's word, or NVML's, which lists processes; nothing
// where neither tells. NVML is asked for each and takes long.
std::optional<uint64_t> device_memory_of_process(const Driver &driver, int device);

// NVML's handle of a device, and a function of NVML's by name; null where the driver is not
// NVIDIA's, or its NVML has none.
void *nvml_device(const Driver &driver, int device);
void *nvml_function(const char *name);

// Fills in what NVML knows of the device's load, heat and clocks.
void meter_device(const Driver &driver, int device, wire::DeviceStatus &);

// The release of NVIDIA's driver ("580.65.06"), or that whose calls the software GPU has; "" where
// neither tells.
std::string driver_release(const Driver &driver);

}  // namespace rgpu::worker
