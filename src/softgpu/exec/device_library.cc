// SPDX-License-Identifier: Apache-2.0
// The rt_* functions that are no warp operation and no barrier: spinning, clocks, printf, malloc,
// assert, trap.
#include <cinttypes>
#include <cstdio>
#include <ctime>

#include <x86intrin.h>

#include "softgpu/exec/block.h"
#include "softgpu/exec/printf.h"
#include "softgpu/exec/report.h"
#include "softgpu/exec/warp.h"

using namespace rgpu::softgpu;
using namespace rgpu::softgpu::exec;

namespace {

uint64_t nanoseconds(clockid_t clock)
{
    timespec now;
    clock_gettime(clock, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// Text that is being made. Its worker keeps it: a bad string's address abandons the fiber while it
// is read, and a fault does so on purpose; nothing may leak or stay locked then.
std::string &scratch(Block &b)
{
    b.worker->text.clear();
    return b.worker->text;
}

// Ends the grid with what stands in scratch().
[[noreturn]] void stop(Block &b, FaultKind kind, uint64_t address)
{
    b.grid->fail(kind, address, b.worker->text);
    b.abandon();
}

}  // namespace

void rt_yield(rgpu_thread *t)
{
    Fiber &f = fiber_of(t);
    f.warp->lane_yielded();
    f.block->yield(f);
}

void rt_nanosleep(rgpu_thread *t, uint32_t duration)
{
    constexpr uint32_t kLongest = 1'000'000;  // PTX ISA: at most a millisecond
    uint64_t end = nanoseconds(CLOCK_MONOTONIC) + (duration < kLongest ? duration : kLongest);
    do rt_yield(t);
    while (nanoseconds(CLOCK_MONOTONIC) < end);
}

uint64_t rt_clock(void) { return __rdtsc(); }

uint64_t rt_globaltimer(void) { return nanoseconds(CLOCK_REALTIME); }

int32_t rt_vprintf(rgpu_block *state, const char *format, const void *arguments)
{
    if (!format) return -1;
    Block &b = block_of(state);
    std::string &text = scratch(b);
    int used = format_device(text, format, arguments);
    if (b.segments && b.segments->searching()) return used;  // said before
    b.grid->print(text);
    if (b.grid->must_flush()) b.visit_scheduler();
    return used;
}

void *rt_malloc(rgpu_block *state, uint64_t bytes)
{
    return block_of(state).grid->heap().allocate(bytes);
}

void rt_free(rgpu_block *state, void *pointer)
{
    Block &b = block_of(state);
    if (!pointer || b.grid->heap().free(pointer)) return;
    char text[64];
    snprintf(text, sizeof text, "free(%p), which malloc() did not give, in ", pointer);
    scratch(b).append(text).append(where(b));
    stop(b, FaultKind::illegal_address, reinterpret_cast<uint64_t>(pointer));
}

void rt_assertfail(rgpu_block *state, const char *message, const char *file, uint32_t line,
                   const char *function, uint64_t)
{
    Block &b = block_of(state);
    std::string &text = scratch(b);
    text += file ? file : "?";
    text.append(":").append(std::to_string(line)).append(": ");
    text += function ? function : "?";
    text.append(": ").append(where_cuda(b)).append(" Assertion `");
    text += message ? message : "?";
    text += "` failed.";
    stop(b, FaultKind::assertion, 0);
}

void rt_trap(rgpu_block *state)
{
    Block &b = block_of(state);
    scratch(b).append("trap in ").append(where(b));
    stop(b, FaultKind::trap, 0);
}

void rt_unknown(rgpu_block *state, const char *text)
{
    Block &b = block_of(state);
    scratch(b).append(text).append(", in ").append(where(b));
    stop(b, FaultKind::illegal_instruction, 0);
}

void rt_misaligned(rgpu_block *state, uint64_t address)
{
    Block &b = block_of(state);
    char text[64];
    if (address)
        snprintf(text, sizeof text, "misaligned address 0x%" PRIx64 " in ", address);
    else
        snprintf(text, sizeof text, "an access that is not aligned to its size in ");
    scratch(b).append(text).append(where(b));
    stop(b, FaultKind::misaligned_address, address);
}
