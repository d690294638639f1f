// SPDX-License-Identifier: Apache-2.0
// The engine's defaults: unit, range, reason.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rgpu::softgpu::exec {

// CUDA's own, which programs rely on.
constexpr uint32_t kWarp = 32;
constexpr uint32_t kMaxBlockThreads = 1024;
constexpr uint32_t kBarriers = 16;
constexpr uint32_t kResidentThreads = 2048;  // of one multiprocessor
constexpr uint32_t kResidentBlocks = 32;     // of one multiprocessor

// Bytes of a fiber's stack on top of what the kernel needs: printf of a double, libm, a signal
// handler of the program. Only pages that are touched cost memory.
constexpr size_t kStackReserve = 48 * 1024;
constexpr size_t kMinStack = 64 * 1024;
constexpr size_t kMaxStack = size_t{64} << 20;
// Stacks with a guard page, of which each takes two of the 65530 mappings that a process may have.
constexpr size_t kGuardedStacks = 16 * 1024;
// Idle stacks kept, bytes of address space; the rest is given back.
constexpr size_t kIdleStackBytes = size_t{512} << 20;
// Idle block objects (with their stacks and shared memory) kept for the next launch, each kind.
constexpr size_t kIdleBlocks = 64;

// Address space behind a block's shared memory that faults when touched.
constexpr size_t kSharedGuard = size_t{1} << 20;

// Yields of a warp after which lanes that wait to converge go on without the spinning ones.
constexpr uint32_t kPatience = 1024;
// How often lanes behind may pass waiting lanes ahead before all are let go.
constexpr uint32_t kMaxBypass = 1 << 16;
// Rounds of spinning with nothing else to do after which the OS thread offers its core to others.
constexpr uint32_t kSpinRounds = 16;

// Meetings (at barriers, in warps) after which a block's other threads have their turn, and the
// milliseconds after which other blocks have theirs: they may wait for each other.
constexpr uint32_t kTurn = 2048;
// Steps in loops (abi.h) after which the lanes that have left the loop no longer wait for those in
// it.
constexpr uint32_t kSpins = 256;
constexpr uint64_t kSlice = 20;

// Bytes of printf output that wait before they are handed over while the kernel runs.
constexpr size_t kPrintBuffer = 64 * 1024;

// Sizes past which an object is damaged rather than big, bytes.
constexpr uint64_t kMaxObject = uint64_t{1} << 30;
constexpr uint64_t kMaxImage = uint64_t{256} << 20;

// Compiled kernels on disk, bytes, before the least recently used go (to 80%).
constexpr uint64_t kCacheBytes = uint64_t{1} << 30;
// Bytes stored by one process between two looks at the cache's size.
constexpr uint64_t kCacheLook = uint64_t{16} << 20;

}  // namespace rgpu::softgpu::exec
