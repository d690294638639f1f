// SPDX-License-Identifier: Apache-2.0
// What the programs of a lease use, counted while they run: a file in memory that rgpud makes with
// the lease, its workers count into, and rgpud reads when the lease ends.
//
// So it outlives a worker that is killed, and rgpud too. A worker has it open and may write
// anything there, or cut it off: rgpud never maps it, and what it reads is wrong for that lease
// only. How long the lease had the GPU is not in it: that the scheduler tells rgpud.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "util/fd.h"
#include "util/result.h"

namespace rgpu::serverd {

// Of one GPU of the lease. Times in nanoseconds.
struct GpuMeter {
    std::atomic<int64_t> blocked;    // launches waited for other tenants' turns
    std::atomic<int64_t> throttled;  // launches waited as the lease's own ceiling was reached
    std::atomic<uint64_t> memory_peak, launches;
};

struct LeaseMeter {
    char magic[8];
    uint64_t gpus;
    std::atomic<uint64_t> bytes_in, bytes_out;  // of connections: from programs, to them
    GpuMeter gpu[1];                            // `gpus` of them, in the lease's order
};

// Behind the GPUs. A meter that an rgpud of before made has none.
struct LinkMeter {
    std::atomic<uint64_t> round_trips;  // answers that programs waited for
    std::atomic<int64_t> network;       // programs waited for bytes on their way; nanoseconds
    uint64_t unused[2];
};
// A worker of before takes it for one GPU more, which it never has.
static_assert(sizeof(LinkMeter) == sizeof(GpuMeter));

class Meter {
public:
    // A fresh file's contents.
    static Result<void> prepare(int fd, size_t gpus);
    // Fails with `invalid` where the file is none. For workers.
    static Result<Meter> map(int fd);
    // For rgpud: what the file of a lease with so many GPUs says. What is missing is 0.
    struct Reading {
        uint64_t bytes_in = 0, bytes_out = 0;
        uint64_t round_trips = 0;
        int64_t network = 0;
        struct Gpu {
            int64_t blocked = 0, throttled = 0;
            uint64_t memory_peak = 0, launches = 0;
        };
        std::vector<Gpu> gpus;
    };
    static Reading read(int fd, size_t gpus);
    Meter(Meter &&other) noexcept
        : memory_(std::exchange(other.memory_, nullptr)), bytes_(other.bytes_), gpus_(other.gpus_)
    {}
    Meter &operator=(Meter &&) = delete;
    ~Meter();

    LeaseMeter &lease() const { return *memory_; }
    // Null where the file has none.
    LinkMeter *link() const;
    size_t gpus() const { return gpus_; }
    // In the lease's order; the last one for a number that there is none of.
    GpuMeter &gpu(size_t i) const { return memory_->gpu[i < gpus_ ? i : gpus_ - 1]; }

private:
    Meter(LeaseMeter *memory, size_t bytes, size_t gpus)
        : memory_(memory), bytes_(bytes), gpus_(gpus)
    {}
    LeaseMeter *memory_;
    size_t bytes_;
    size_t gpus_;  // what the file's size says, whatever is written in it
};

// Raises a mark.
inline void raise(std::atomic<uint64_t> &mark, uint64_t value)
{
    for (uint64_t was = mark.load(std::memory_order_relaxed);
         was < value && !mark.compare_exchange_weak(was, value);)
        continue;
}

}  // namespace rgpu::serverd
