// One launch while it runs: which blocks are still to come, which are resident and wait for an OS
// thread, and how it ends.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "softgpu/abi.h"
#include "softgpu/engine.h"
#include "softgpu/exec/block.h"
#include "softgpu/exec/loaded_kernel.h"

namespace rgpu::softgpu::exec {

// An OS thread while it works on a grid.
struct Worker {
    Coroutine scheduler;  // the stack the OS gave it
    Block *block = nullptr;
    uint32_t sm_id = 0;
    std::string text;  // see device_library.cc
    // Filled by the signal handler, read by the fiber's stack that it restarts.
    int signal = 0;
    uint64_t address = 0, error = 0, trap = 0;
};

class Grid {
public:
    Grid(const KernelCode &, const Launch &);
    ~Grid();

    // Runs blocks until there is nothing left that nobody else runs.
    void work(Worker &);
    // Whether another OS thread would find something to do.
    bool wants_hands() const;

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

private:
    void work_blocks(Worker &);
    void work_threads(Worker &);
    Block *next_block(bool prefer_new, Block *&spare);
    void park(Block *);

    const uint64_t blocks_;
    std::atomic<uint64_t> resident_limit_{0};
    std::atomic<uint64_t> next_{0};  // the first block that nobody has begun
    std::atomic<uint64_t> resident_{0}, parked_count_{0};
    std::mutex mutex_;
    Block *parked_ = nullptr, **parked_tail_ = &parked_;  // oldest first
    std::atomic<bool> stop_{false};
    std::optional<Fault> fault_;
    std::mutex print_mutex_, flush_mutex_;
    std::string print_buffer_;
    std::atomic<size_t> printed_{0};
    alignas(64) uint32_t workspace_[16] = {};  // {size, barrier}: cooperative_groups' driver_abi.h
};

}  // namespace rgpu::softgpu::exec
