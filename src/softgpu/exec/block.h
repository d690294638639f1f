// SPDX-License-Identifier: Apache-2.0
// One resident block of a grid: its threads as fibers, its warps, its shared memory. One OS thread
// runs a block at a time; between run() calls it may change. Blocks come from a pool and go back to
// it: whoever has taken one owns it.
//
// A block that only spins comes back from run() so that the OS thread can go on with another
// block; that is how blocks that wait for each other progress.
#pragma once

#include <cstdint>
#include <memory>

#include "softgpu/abi.h"
#include "softgpu/exec/grid.h"
#include "softgpu/exec/segments.h"
#include "softgpu/exec/shared_memory.h"
#include "softgpu/exec/threads.h"
#include "softgpu/exec/warp.h"

namespace rgpu::softgpu::exec {

class Block final : public Threads {
public:
    // An idle one from the pool, with room for the threads and shared memory; null: out of memory.
    static Block *take(const Grid &);
    // Whatever it was doing is forgotten.
    static void give(Block *);

    // Makes it the grid's block `index`. For a "thread" kernel.
    void begin(Grid &, uint64_t index);
    // `deadlock`: every thread waits, and none can go on.
    enum class Outcome { done, spinning, stopped, deadlock };
    // Runs its threads until all have ended, all that are left spin or wait, or the grid is
    // stopped.
    Outcome run(Worker &);

    // Runs the grid's blocks [first, last), of a "block" kernel, one after another. False: stopped.
    bool run_blocks(Grid &, Worker &, uint64_t first, uint64_t last);

    BlockState state;
    std::unique_ptr<Warp[]> warps;
    std::unique_ptr<SegmentRun> segments;  // made when a kernel that is cut first needs it
    Block *next = nullptr;                 // in the one list it is in

private:
    static void thread_body(void *fiber);
    static void blocks_body(void *block);
    Block() : Threads(thread_body) {}
    ~Block();
    void lay_out(Grid &);
    void ended(Fiber &);
    // Makes the code that a fiber waits for, on the scheduler's stack; or fails the grid.
    void serve(const LateCall &);

    Coroutine *main_ = nullptr;  // a "block" kernel's stack
    bool main_busy_ = false;
    uint64_t first_ = 0, last_ = 0;  // of run_blocks
    uint32_t capacity_ = 0;          // threads it has room for
    SharedMemory shared_;
    Dim3 shape_{0, 0, 0};  // that fibers' tids are laid out for
};

inline Block &block_of(BlockState *b) { return *static_cast<Block *>(b->engine); }

}  // namespace rgpu::softgpu::exec
