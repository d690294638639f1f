// One resident block of a grid: its threads as fibers, its warps and barriers, and which thread
// runs next. One OS thread runs a block at a time; between run() calls it may change.
//
// A block that only spins comes back from run() so that the OS thread can go on with another
// block; that is how blocks that wait for each other progress.
#pragma once

#include <cstdint>
#include <memory>

#include "softgpu/abi.h"
#include "softgpu/exec/coroutine.h"
#include "softgpu/exec/limits.h"
#include "softgpu/exec/shared_memory.h"

namespace rgpu::softgpu::exec {

class Block;
class Grid;
struct Warp;
struct Worker;

enum class Wait : uint8_t { none, barrier, meeting, convergence };

// One thread of the block.
struct Fiber {
    ThreadState thread;  // what generated code sees; engine = this fiber
    Block *block = nullptr;
    Warp *warp = nullptr;
    Coroutine *stack = nullptr;  // null: not started, or ended
    Fiber *next = nullptr;       // in the one list it is in
    uint32_t result = 0;         // of a barrier's reduction
    Wait wait = Wait::none;      // for reports
    uint8_t barrier = 0;

    uint32_t bit() const { return uint32_t{1} << thread.lane; }
};

struct FiberList {
    Fiber *head = nullptr, *tail = nullptr;

    bool empty() const { return !head; }
    void push_back(Fiber &f)
    {
        f.next = nullptr;
        (head ? tail->next : head) = &f;
        tail = &f;
    }
    void push_front(Fiber &f)
    {
        f.next = head;
        if (!head) tail = &f;
        head = &f;
    }
    Fiber *pop()
    {
        Fiber *f = head;
        if (f) head = f->next;
        return f;
    }
    void append(FiberList &other)
    {
        if (!other.head) return;
        (head ? tail->next : head) = other.head;
        tail = other.tail;
        other = {};
    }
    void prepend(FiberList &other)
    {
        other.append(*this);
        *this = other;
        other = {};
    }
};

// A named barrier's current phase.
struct Barrier {
    uint32_t expected = 0;      // 0: all threads that have not ended
    uint32_t arrived = 0;       // threads, and lanes counted with their warp
    uint32_t people = 0;        // threads that brought a predicate
    uint32_t trues = 0;         // how many of them said yes
    uint32_t gone = 0;          // threads that arrived without waiting and have ended since
    uint32_t warps = 0;         // warps that have come
    uint32_t passed_warps = 0;  // warps of which lanes arrived without waiting
    uint32_t passed[kMaxBlockThreads / kWarp];  // those lanes; valid where passed_warps says
    FiberList waiting;
};

class Block {
public:
    // An idle one from the pool, with room for the threads and shared memory; null: out of memory.
    static Block *take(const Grid &);
    // Whatever it was doing is forgotten.
    static void give(Block *);

    // Makes it the grid's block `index`. For a "thread" kernel.
    void begin(Grid &, uint64_t index);
    enum class Outcome { done, spinning, stopped };
    // Runs its threads until all have ended, all that are left spin, or the grid is stopped.
    Outcome run(Worker &);

    // Runs the grid's blocks [first, last), of a "block" kernel, one after another. False: stopped.
    bool run_blocks(Grid &, Worker &, uint64_t first, uint64_t last);

    // --- for rt_*, on a fiber of this block

    // Leaves the fiber, which waits in some list or group, for one that can run.
    void suspend(Fiber &);
    // Lets others run first.
    void yield(Fiber &);
    // To the scheduler and back: for work that must not run on a fiber's stack.
    void visit_scheduler();
    // Threads have met, and the current one goes on. Those that meet in a loop would keep the OS
    // thread for themselves: now and then they must let go.
    void phase_ended();
    // Never to come back: the grid is stopped.
    [[noreturn]] void abandon();
    void make_ready(Fiber &f) { ready_.push_back(f); }
    void make_ready_first(FiberList &list) { ready_.prepend(list); }
    void make_ready(FiberList &list) { ready_.append(list); }

    BlockState state;
    Grid *grid = nullptr;
    Worker *worker = nullptr;      // the OS thread that runs it now
    Fiber *current = nullptr;      // the thread that runs now; null in a "block" kernel
    Coroutine *running = nullptr;  // the stack that runs now; null: the scheduler
    uint32_t threads = 0, live = 0;
    uint32_t barriers_in_use = 0;  // those with a phase begun
    Barrier barriers[kBarriers];
    std::unique_ptr<Warp[]> warps;
    std::unique_ptr<Fiber[]> fibers;
    Block *next = nullptr;  // in the one list it is in

private:
    static void thread_body(void *fiber);
    static void blocks_body(void *block);
    Block() = default;
    ~Block();
    void lay_out(Grid &);
    Fiber *pick();
    bool start(Fiber &);
    void ended(Fiber &);
    void leave_to(Fiber *);
    void forget();

    FiberList ready_, yielded_;
    uint32_t started_ = 0;
    uint32_t phases_ = 0;  // meetings since others last had their turn
    bool turn_over_ = false;
    bool begin_all_ = false;     // threads that have not begun come first
    Coroutine *idle_ = nullptr;  // stacks whose thread has ended
    Coroutine *main_ = nullptr;  // a "block" kernel's stack
    bool main_busy_ = false;
    uint64_t first_ = 0, last_ = 0;  // of run_blocks
    uint32_t capacity_ = 0;          // threads it has room for
    size_t stack_bytes_ = 0;
    SharedMemory shared_;
    Dim3 shape_{0, 0, 0};  // that fibers' tids are laid out for
};

inline Fiber &fiber_of(ThreadState *t) { return *static_cast<Fiber *>(t->engine); }
inline Block &block_of(BlockState *b) { return *static_cast<Block *>(b->engine); }

}  // namespace rgpu::softgpu::exec
