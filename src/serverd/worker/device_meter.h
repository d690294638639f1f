// How much of a device's memory is in use, asked without a context.
#pragma once

#include <optional>

#include "serverd/worker/driver.h"

namespace rgpu::worker {

// A symbol that only the software GPU's driver has.
inline constexpr const char *kSoftwareMark = "rgpu_softgpu_set_printf";

// NVML's word, which comes with NVIDIA's driver; nothing where that is not the driver.
std::optional<uint64_t> device_memory_in_use(const Driver &driver, int device);

}  // namespace rgpu::worker
