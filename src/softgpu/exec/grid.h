// SPDX-License-Identifier: Apache-2.0
// One launch while it runs: what all of its blocks share, how far it has come, and how it ends.
//
// Lives on the stack of run(), which hands its blocks out with a Dispatch. Any thread that works on
// the grid.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "softgpu/abi.h"
#include "softgpu/engine.h"
#include "softgpu/exec/limits.h"
#include "softgpu/exec/loaded_kernel.h"

namespace rgpu::softgpu::exec {

// How far a grid has come.
struct Progress {
    std::atomic<uint64_t> resident_limit{0};
    std::atomic<uint64_t> next{0};                 // the first block that nobody has begun
    std::atomic<uint64_t> resident{0}, parked{0};  // begun; of those, put aside
};

class Grid {
public:
    Grid(const KernelCode &, const Launch &);

    bool stopped() const { return stop_.load(std::memory_order_relaxed); }
    // The first fault counts; it stops the grid. Not from a signal handler.
    void fail(FaultKind, uint64_t address, std::string text);
    std::optional<Fault> take_fault();

    // Blocks that could run instead of one that spins.
    bool has_other_work() const;

    // Device printf: kept, and handed over by flush() when much has come, and at the end.
    void print(std::string_view text);
    bool must_flush() const { return printed_.load(std::memory_order_relaxed) > kPrintBuffer; }
    void flush();

    uint64_t blocks() const { return blocks_; }
    bool more_than_one_block() const { return blocks_ > 1; }
    DeviceHeap &heap() const;

    const KernelCode &code;
    const Launch &launch;
    GridState state;
    Progress progress;  // dispatch.cc moves it

private:
    const uint64_t blocks_;
    std::mutex mutex_;
    std::atomic<bool> stop_{false};
    std::optional<Fault> fault_;
    std::mutex print_mutex_, flush_mutex_;
    std::string print_buffer_;
    std::atomic<size_t> printed_{0};
    alignas(64) uint32_t workspace_[16] = {};  // {size, barrier}: cooperative_groups' driver_abi.h
};

}  // namespace rgpu::softgpu::exec
