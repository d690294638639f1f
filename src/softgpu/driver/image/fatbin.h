// SPDX-License-Identifier: Apache-2.0
// Fat binaries: the containers in which nvcc puts a program's device code for several
// architectures. The bytes come from files and from whoever calls us: nothing in them is believed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "util/result.h"

namespace rgpu::softgpu::driver {

constexpr uint32_t kFatbinMagic = 0xBA55ED50, kWrapperMagic = 0x466243B1;

// What cuModuleLoadFatBinary and cudart hand over: points to the fat binary in memory.
struct FatbinWrapper {
    uint32_t magic, version;     // version 1, or 2: linked from several objects
    const void *data;            // the fat binary
    const void *const *objects;  // version 2: null-ended array of fat binaries, one for each object
};

struct FatbinEntry {
    bool ptx = false;   // else machine code
    unsigned arch = 0;  // 80 for sm_80
    enum class Packing { none, lz4, zstd } packing = Packing::none;
    std::span<const uint8_t> payload;
    uint64_t unpacked_bytes = 0;  // of a packed payload
};

// How many bytes the fat binary that starts here says it has, header included; 0 when it is none.
uint64_t fatbin_bytes(const void *header);

// The fat binaries that lie in a host's object or library, none inside another.
std::vector<std::span<const uint8_t>> find_fatbins(std::span<const uint8_t> file);

// All entries, `invalid` when the container is damaged.
Result<std::vector<FatbinEntry>> read_fatbin(std::span<const uint8_t> bytes);

// The payload, unpacked. PTX without its final zeros.
Result<std::string> unpack(const FatbinEntry &);

// The PTX for a device of this compute capability (80 = 8.0): the newest that is not too new.
// `unsupported` when there is none (machine code cannot run here).
Result<std::string> best_ptx(std::span<const uint8_t> bytes, unsigned compute_capability);

}  // namespace rgpu::softgpu::driver
