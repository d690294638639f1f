// SPDX-License-Identifier: Apache-2.0
// Allocating memory of each kind, and which addresses calls may touch.
//
// What is allocated here belongs to whoever asked, until release_range() or free_device(). Any
// thread: a device's arena and the table of ranges have their own locks.
#pragma once

#include <cstdint>
#include <memory>

#include "calls/cuda_api.h"
#include "softgpu/driver/base/ranges.h"

namespace rgpu::softgpu::driver {

class Device;
class Pool;

// Memory of a device, known to Ranges as `made` says (base is filled in). 0: out of memory.
uint64_t allocate_device(Device &, uint64_t bytes, Range made);
// The same out of a pool. 0: out of memory, or of what the pool may hold.
uint64_t allocate_from(const std::shared_ptr<Pool> &, uint64_t bytes);
// Gives the memory of a range that was taken out of Ranges back.
void release_range(const Range &);
// Takes the device or managed memory that starts at this address out of Ranges and gives it back;
// INVALID_VALUE when none does.
CUresult free_device(uint64_t address);

// True when a call may use [address, address + bytes) as device memory: device or managed memory,
// or host memory that the device can reach. To `write` it must not be mapped for reading only.
bool device_may_touch(uint64_t address, uint64_t bytes, bool write);
// The same for an argument that is host memory or, with unified addressing, any known memory. Only
// addresses in the window of device memory can be known to be wrong.
bool host_may_touch(uint64_t address, uint64_t bytes, bool write);
// Ordinary host memory, of which the driver knows nothing: copies must not outlive the call.
bool is_pageable(uint64_t address);

}  // namespace rgpu::softgpu::driver
