// SPDX-License-Identifier: Apache-2.0
// What the device says it is. All of it must fit together: programs choose launch shapes by it.
#pragma once

#include "calls/cuda_api.h"

namespace rgpu::softgpu::driver {

class Device;

// The same for every device, whatever its compute capability. Any thread, after cuInit.
constexpr unsigned kMaxThreadsPerBlock = 1024, kWarp = 32;
constexpr unsigned kMaxBlockX = 1024, kMaxBlockY = 1024, kMaxBlockZ = 64;
constexpr unsigned kMaxGridX = 0x7fffffff, kMaxGridYZ = 65535;
constexpr unsigned kSharedPerBlock = 48 << 10, kReservedShared = 1 << 10;
constexpr unsigned kRegistersPerMultiprocessor = 65536;
// Of textures in linear and in pitched memory: texels, rows, bytes from row to row.
constexpr unsigned kMaxLinearTexels = 134217728;
constexpr unsigned kMaxPitchedWidth = 131072, kMaxPitchedHeight = 65000, kMaxPitch = 2097120;

// By compute capability, as the CUDA C++ Programming Guide's table has it.
struct Multiprocessor {
    int capability;  // from this one on
    unsigned threads, blocks, shared;
};
const Multiprocessor &multiprocessor();
inline unsigned shared_per_block_optin() { return multiprocessor().shared - kReservedShared; }

// INVALID_VALUE for what is no attribute; 0 for a feature that the device does not have.
CUresult device_attribute(const Device &, CUdevice_attribute, int &value);

}  // namespace rgpu::softgpu::driver
