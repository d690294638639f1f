// Handing out a grid's blocks, and ending it.
#include "softgpu/exec/grid.h"

#include <algorithm>

#include "softgpu/exec/report.h"

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
    resident_limit_ = launch.cooperative ? blocks_
                                         : (cores() + 1) * std::max<uint64_t>(1, per_core);
}

Grid::~Grid()
{
    while (Block *b = parked_) {
        parked_ = b->next;
        Block::give(b);
    }
}

bool Grid::has_other_work() const
{
    return parked_count_.load(std::memory_order_relaxed) > 0 ||
           (next_.load(std::memory_order_relaxed) < blocks_ &&
            resident_.load(std::memory_order_relaxed) < resident_limit_);
}

bool Grid::wants_hands() const { return !stopped() && has_other_work(); }

void Grid::work(Worker &w)
{
    if (code.per_thread)
        work_threads(w);
    else
        work_blocks(w);
}

// --- "block" kernels: big pieces first, small ones at the end, so that all cores end together

void Grid::work_blocks(Worker &w)
{
    Block *b = nullptr;
    uint64_t at = next_.load(std::memory_order_relaxed);
    while (at < blocks_ && !stopped()) {
        uint64_t take = std::max<uint64_t>(1, (blocks_ - at) / (uint64_t{4} * cores()));
        if (!next_.compare_exchange_weak(at, at + take, std::memory_order_relaxed)) continue;
        if (!b && !(b = Block::take(*this))) {
            fail(FaultKind::out_of_resources, 0, "no memory for a block's stack or shared memory");
            break;
        }
        if (!b->run_blocks(*this, w, at, at + take)) break;
        at = next_.load(std::memory_order_relaxed);
    }
    if (b) Block::give(b);
}

// --- "thread" kernels

// A block to run now: one that was put aside, or a new one (for which `spare` is used first).
Block *Grid::next_block(bool prefer_new, Block *&spare)
{
    auto can_begin = [&] { return next_ < blocks_ && resident_ < resident_limit_; };
    std::unique_lock lock(mutex_);
    if (!spare && can_begin() && (prefer_new || !parked_)) {
        lock.unlock();
        spare = Block::take(*this);
        lock.lock();
        if (!spare && resident_ && !launch.cooperative) resident_limit_ = resident_.load();
    }
    if (stopped()) return nullptr;
    if (parked_ && !(prefer_new && spare && can_begin())) {
        Block *b = parked_;
        parked_ = b->next;
        if (!parked_) parked_tail_ = &parked_;
        --parked_count_;
        return b;
    }
    if (!can_begin()) return nullptr;
    if (!spare) {
        lock.unlock();
        fail(FaultKind::out_of_resources, 0, "no memory for a block's threads or shared memory");
        return nullptr;
    }
    ++resident_;
    uint64_t index = next_++;
    lock.unlock();
    Block *b = spare;
    spare = nullptr;
    b->begin(*this, index);
    return b;
}

void Grid::park(Block *b)
{
    std::lock_guard lock(mutex_);
    b->next = nullptr;
    *parked_tail_ = b;
    parked_tail_ = &b->next;
    ++parked_count_;
}

void Grid::work_threads(Worker &w)
{
    Block *spare = nullptr;
    bool spun = false;
    while (Block *b = next_block(spun, spare)) {
        Block::Outcome outcome = b->run(w);
        spun = outcome == Block::Outcome::spinning;
        if (spun) {
            park(b);
            continue;
        }
        --resident_;
        if (spare || outcome == Block::Outcome::stopped)
            Block::give(b);
        else
            spare = b;
    }
    if (spare) Block::give(spare);
}

// --- how it ends

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
