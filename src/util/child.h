// SPDX-License-Identifier: Apache-2.0
// What a child does between fork and exec to be a program of its own: rgpud's children, and those
// of its spawner.
//
// What is not for the parent is async-signal-safe, and changes nothing but the calling process: one
// that shares memory with its parent (vfork(2)) may call them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace rgpu {

inline constexpr size_t kMostPlaced = 128;

// Descriptor given[i] becomes number i, each of them; all others are closed. False, with errno:
// one is not open, or there are more than kMostPlaced.
bool place_descriptors(std::span<const int> given);

// Each signal does what it does at birth, and none is blocked.
void default_signals();

// Which processors: one bit each. None, or where the kernel has none of them: any.
using Processors = uint64_t[16];
// Those of these numbers that there can be. For the parent.
void set_processors(Processors &, const std::vector<int> &numbers);
void bind_to(const Processors &);

// What a process by itself may take of a host (setrlimit(2)); 0: no limit.
struct ProcessLimits {
    uint64_t data;       // RLIMIT_DATA, bytes
    uint64_t processes;  // RLIMIT_NPROC, with all others of its user
};
// A smaller limit that is there already stays.
bool set_limits(const ProcessLimits &);

// No capability is left, nor can be had again. False, with errno.
bool drop_capabilities();

}  // namespace rgpu
