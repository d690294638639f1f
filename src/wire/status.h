// SPDX-License-Identifier: Apache-2.0
// How a client's GPUs stand now: asked on the data stream with a frame of type kStatusCall and no
// body. The answer's body is a u64 count, a DeviceStatus for each device in the snapshot's order,
// and the release of the host's driver as a string (empty where it is not NVIDIA's). What is not
// known is kUnknown.
#pragma once

#include <cstdint>

namespace rgpu::wire {

// No CallId is as high.
inline constexpr uint16_t kStatusCall = 0xfff0;

struct DeviceStatus {
    static constexpr int64_t kUnknown = -1;

    int64_t memory_used = kUnknown;   // bytes, by the whole lease
    int64_t memory_total = kUnknown;  // the lease's cap
    int64_t gpu_busy = kUnknown;      // percent of the time, of the whole GPU
    int64_t memory_busy = kUnknown;   // percent
    int64_t temperature = kUnknown;   // degrees Celsius
    int64_t power = kUnknown;         // milliwatts
    int64_t power_limit = kUnknown;   // milliwatts
    int64_t sm_clock = kUnknown;      // MHz
    int64_t memory_clock = kUnknown;  // MHz
    int64_t fan = kUnknown;           // percent
    int64_t performance_state = kUnknown;
};
static_assert(sizeof(DeviceStatus) == 88);

}  // namespace rgpu::wire
