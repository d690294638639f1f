// SPDX-License-Identifier: Apache-2.0
// What a worker and the scheduler of a GPU tell each other: two pages of memory, a bell and a line,
// of that worker alone (doc/sharing.md).
//
// The worker belongs to its tenant, so nothing here is trusted by the scheduler: it reads the
// worker's words once and clamps them (board.cc), the worker cannot write the scheduler's words or
// change any size, and no descriptor of the worker's is ever read from.
//
// Times are CLOCK_MONOTONIC in nanoseconds, which all processes of a host share.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "util/fd.h"
#include "util/result.h"

namespace rgpu::share {

int64_t clock_now();

// The worker's words.
struct Told {
    std::atomic<uint32_t> seated;   // it has work for this GPU, or will have some
    std::atomic<uint32_t> waiting;  // for the token
    // Counted before the driver is called, so that nobody takes the token between the look at it
    // and the launch; without work these two are equal.
    std::atomic<uint64_t> launches, completed;
    std::atomic<uint64_t> work;    // how long it had work in all: see work_word()
    std::atomic<uint64_t> bursts;  // how often it began to have some
    std::atomic<int64_t>
        under_way;                 // since when the oldest work that is looked after runs; 0: none
    std::atomic<uint32_t> gates;   // streams that stand at a host function: their work does not run
    std::atomic<uint64_t> bytes;   // copied to and from the host
    std::atomic<int64_t> memory;   // of the GPU, held by the tenant, as this worker saw it last
    std::atomic<int64_t> longest;  // the longest work that was looked at
};

// In Told::work: while there is none, twice the time in all; while there is some, twice the time of
// day at which that time was 0, and 1.
constexpr uint64_t work_word(bool busy, uint64_t time) { return time << 1 | (busy ? 1 : 0); }
constexpr uint64_t work_at(uint64_t word, int64_t now)
{
    return word & 1 ? static_cast<uint64_t>(now) - (word >> 1) : word >> 1;
}

// The scheduler's words.
struct Says {
    std::atomic<uint32_t> token;       // a futex
    std::atomic<uint32_t> alone;       // no other tenant has a worker on this GPU
    std::atomic<uint32_t> at_ceiling;  // while it waits: for its tenant's own ceiling
    std::atomic<int64_t> deadline;     // of the turn
    std::atomic<int64_t> looked;       // when the scheduler last saw it wait
    // What rgpud says that the tenant may have of the GPU now: bytes of its memory (0: nothing was
    // said), and whether its part of the time has a ceiling.
    std::atomic<uint64_t> memory;
    std::atomic<uint32_t> has_ceiling;
};

// In `token`: the tenant has it; the holder must launch nothing more; the scheduler wants to know
// when work ends.
inline constexpr uint32_t kMine = 1, kClosing = 2, kTell = 4;

template <class Words> struct Unmap {
    void operator()(Words *words) const;
};
template <class Words> using Page = std::unique_ptr<Words, Unmap<Words>>;

// The scheduler's end.
struct SchedulerEnd {
    Page<const Told> told;
    Page<Says> says;
};

// The worker's end.
struct TenantEnd {
    Page<Told> told;
    Page<const Says> says;
    Fd bell, line;
};

// Both ends. The bell makes an epoll instance return (edge-triggered: it is never read), the line
// hangs up when the worker is gone (nor is that read). The worker's end is a socket in which all of
// it lies ready, so that it can be given away as one descriptor.
struct Ends {
    SchedulerEnd desk;
    Fd bell, line, socket;
};
Result<Ends> open_ends();
// In the worker, once for each socket. Fails with `disconnected` where there is no scheduler.
Result<TenantEnd> take_tenant_end(int socket);
// The scheduler's words alone, for who reads them before the seat is taken; the socket stays as it
// is. Fails as take_tenant_end() does.
Result<Page<const Says>> look_at_words(int socket);

}  // namespace rgpu::share
