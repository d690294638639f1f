// SPDX-License-Identifier: Apache-2.0
// A device as this process sees it: its memory, its primary context, its memory pools.
//
// Devices are made by cuInit (initialise.h) and never freed. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "calls/cuda_api.h"
#include "softgpu/driver/base/arena.h"
#include "softgpu/driver/base/gpu_host.h"
#include "softgpu/driver/base/settings.h"

namespace rgpu::softgpu::driver {

class Context;
class Pool;

class Device final : public Arena::Account {
public:
    Device(GpuHost &, const Settings &, int index, int host_index, CUuuid);

    const int index;       // CUdevice
    const int host_index;  // among the host's
    const CUuuid uuid;
    const std::string name;
    const uint64_t total;
    Arena arena;
    // Set once, before the device can be found.
    Context *primary = nullptr;
    std::shared_ptr<Pool> default_pool;
    struct {
        std::atomic<uint64_t> now = 0, high = 0;
    } graph_memory;  // bytes that nodes of graphs have

    uint64_t used() { return host_.used(host_index); }
    uint64_t held_here() const { return host_.held(host_index); }
    // False when the host's processes together would hold more than `total`.
    bool take(uint64_t bytes) override { return host_.take(host_index, bytes, total); }
    void give(uint64_t bytes) override { host_.give(host_index, bytes); }

    // What a program chose with cuDeviceSetMemPool.
    std::shared_ptr<Pool> pool();
    void set_pool(std::shared_ptr<Pool>);

private:
    GpuHost &host_;
    std::mutex mutex_;
    std::shared_ptr<Pool> pool_;
};

// Of the device with this index on the host in this directory: the same at every start.
CUuuid make_uuid(const std::string &directory, int host_index);

}  // namespace rgpu::softgpu::driver
