// SPDX-License-Identifier: Apache-2.0
// Hands out a grid's blocks to the OS threads that work on it.
//
// Any thread. Blocks that are put aside belong to it until somebody goes on with them, or it goes.
#pragma once

#include <mutex>

#include "softgpu/exec/block.h"
#include "softgpu/exec/grid.h"
#include "softgpu/exec/worker.h"

namespace rgpu::softgpu::exec {

class Dispatch {
public:
    explicit Dispatch(Grid &grid) : grid_(grid) {}
    ~Dispatch();
    Dispatch(const Dispatch &) = delete;
    Dispatch &operator=(const Dispatch &) = delete;

    // Runs blocks until there is nothing left that nobody else runs.
    void work(Worker &);
    // Whether another OS thread would find something to do.
    bool wants_hands() const;

private:
    void work_blocks(Worker &);
    void work_threads(Worker &);
    Block *next_block(bool prefer_new, Block *&spare);
    void park(Block *);

    Grid &grid_;
    std::mutex mutex_;
    Block *parked_ = nullptr, **parked_tail_ = &parked_;  // oldest first
};

}  // namespace rgpu::softgpu::exec
