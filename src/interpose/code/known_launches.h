// SPDX-License-Identifier: Apache-2.0
// Launches that the server's driver takes for sure: they are posted. For the others the program
// waits for the driver's word, because a driver of its own would refuse them at once. Called by any
// thread.
#pragma once

#include <array>
#include <atomic>

#include "calls/cuda_api.h"
#include "calls/handles.h"
#include "wire/launch_limits.h"

namespace rgpu::interpose {

// Of one function: how large blocks may be, as far as the server has said so or has taken such a
// launch.
class KnownLimits {
public:
    KnownLimits() = default;
    KnownLimits(const KnownLimits &);
    KnownLimits &operator=(const KnownLimits &) = delete;

    bool covers(CUdevice device, uint32_t threads, uint32_t dynamic_shared) const;
    // The driver said so, or it took such a launch.
    void add(CUdevice device, wire::LaunchLimits);
    // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES is this from now on. When that is less than
    // it was, what is known of the dynamic shared memory of every function is forgotten: a kernel
    // and its functions share the attribute.
    void set_dynamic_shared(CUdevice device, uint32_t bytes);

private:
    struct Known {
        uint16_t threads = 0, generation = 0;
        uint32_t dynamic_shared = 0;
    };
    Known known(CUdevice device) const;

    static constexpr size_t kDevices = 16;  // further ones are asked each time
    std::array<std::atomic<Known>, kDevices> known_{};
};

// Cooperative launches and those with clusters depend on the whole shape: known are those that were
// taken.
struct LaunchShape {
    calls::HandleId function = 0;
    uint32_t stamp = 0;
    CUdevice device = 0;
    std::array<uint32_t, 3> grid{}, block{}, cluster{};
    uint32_t dynamic_shared = 0;
    bool cooperative = false;
    auto operator<=>(const LaunchShape &) const = default;
};
bool was_taken(const LaunchShape &);
void note_taken(const LaunchShape &);

}  // namespace rgpu::interpose
