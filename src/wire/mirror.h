// SPDX-License-Identifier: Apache-2.0
// Mirrored memory on the wire: what the first word of a cuMemAllocManaged frame's body says.
// Layouts: doc/protocol.md, "Mirrored memory".
#pragma once

#include <cstddef>
#include <cstdint>

namespace rgpu::wire {

enum class MirrorStep : uint32_t {
    reserve,      // asks for addresses that mean the same to both sides
    back,         // asks for device memory behind them: from now on they can be mirrored
    release,      // gives addresses, and what is behind them, back
    push,         // bytes that the program changed
    pull,         // asks for bytes that the device changed
    back_mapped,  // asks for device memory at addresses that the program has reserved
};

// Addresses and device memory come in multiples of this; drivers' own granularity is not larger.
inline constexpr uint64_t kMirrorGranule = uint64_t{2} << 20;

// One part of mirrored memory.
struct MirroredRange {
    uint64_t address = 0, bytes = 0;
};

// A pull asks for at most this much, so that its answer fits a frame whatever changed.
inline constexpr uint64_t kMaxPullBytes = uint64_t{16} << 20;
inline constexpr size_t kMaxPullRanges = 4096;
// A push's diff is cut when it has grown to this.
inline constexpr size_t kPushBytes = 512 << 10;

}  // namespace rgpu::wire
