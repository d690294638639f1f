// SPDX-License-Identifier: Apache-2.0
#include "softgpu/exec/grid.h"

#include <algorithm>

namespace rgpu::softgpu::exec {

namespace {

std::atomic<uint64_t> next_grid_id{1};

DeviceHeap &process_heap()
{
    static DeviceHeap *heap = new DeviceHeap;  // never destroyed: kernels may run at exit
    return *heap;
}

}  // namespace

Grid::Grid(const KernelCode &code, const Launch &launch)
    : code(code), launch(launch), blocks_(launch.grid.count())
{
    state.grid = launch.grid;
    state.block = launch.block;
    state.params = static_cast<const uint8_t *>(launch.params);
    state.dynamic_shared = launch.dynamic_shared;
    state.total_shared = launch.shared_bytes;
    state.grid_id = next_grid_id.fetch_add(1, std::memory_order_relaxed);
    state.sm_count = cores();
    state.engine = this;
    workspace_[0] = sizeof workspace_;
    if (launch.cooperative) state.workspace = workspace_;
    uint64_t per_core =
        std::min<uint64_t>(kResidentBlocks, kResidentThreads / launch.block.count());
    progress.resident_limit = launch.cooperative ? blocks_
                                                 : (cores() + 1) * std::max<uint64_t>(1, per_core);
}

bool Grid::has_other_work() const
{
    return progress.parked.load(std::memory_order_relaxed) > 0 ||
           (progress.next.load(std::memory_order_relaxed) < blocks_ &&
            progress.resident.load(std::memory_order_relaxed) < progress.resident_limit);
}

void Grid::fail(FaultKind kind, uint64_t address, std::string text)
{
    std::lock_guard lock(mutex_);
    if (!fault_) fault_ = Fault{kind, address, std::move(text)};
    stop_ = true;
}

std::optional<Fault> Grid::take_fault()
{
    std::lock_guard lock(mutex_);
    return std::move(fault_);
}

DeviceHeap &Grid::heap() const { return launch.heap ? *launch.heap : process_heap(); }

void Grid::print(std::string_view text)
{
    std::lock_guard lock(print_mutex_);
    print_buffer_ += text;
    printed_.store(print_buffer_.size(), std::memory_order_relaxed);
}

void Grid::flush()
{
    std::lock_guard turn(flush_mutex_);
    std::string text;
    {
        std::lock_guard lock(print_mutex_);
        text.swap(print_buffer_);
        printed_.store(0, std::memory_order_relaxed);
    }
    if (!text.empty() && launch.print) launch.print(text);
}

}  // namespace rgpu::softgpu::exec
