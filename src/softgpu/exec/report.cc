// SPDX-License-Identifier: Apache-2.0
// Words for faults and deadlocks.
#include "softgpu/exec/report.h"

#include <cinttypes>

#include "util/format.h"

namespace rgpu::softgpu::exec {

namespace {

std::string triple(uint32_t x, uint32_t y, uint32_t z) { return format("%u,%u,%u", x, y, z); }

std::string thread_of(const Block &b)
{
    if (b.current) {
        const ThreadState &t = b.current->thread;
        return triple(t.tid_x, t.tid_y, t.tid_z);
    }
    return triple(b.state.tid_x, b.state.tid_y, b.state.tid_z);
}

std::string block_of(const Block &b)
{
    return triple(b.state.ctaid.x, b.state.ctaid.y, b.state.ctaid.z);
}

}  // namespace

std::string where(const Block &b)
{
    std::string text = "block (" + block_of(b) + ")";
    if (b.current || b.state.named) return text + ", thread (" + thread_of(b) + ")";
    // A "block" kernel runs all threads in one loop; which one it is, only it knows.
    const auto running = b.segments ? b.segments->running() : std::nullopt;
    if (!running) return text;
    const auto &[first, last] = *running;
    if (first.x == last.x) return text + ", thread (" + triple(first.x, first.y, first.z) + ")";
    return text + ", one of the threads (" + triple(first.x, first.y, first.z) + ") to (" +
           triple(last.x, last.y, last.z) + ")";
}

std::string where(const Block &b, const Fiber &f)
{
    const ThreadState &t = f.thread;
    return "block (" + block_of(b) + "), thread (" + triple(t.tid_x, t.tid_y, t.tid_z) + ")";
}

std::string where_cuda(const Block &b)
{
    return "block: [" + block_of(b) + "], thread: [" + thread_of(b) + "]";
}

std::string describe_deadlock(const BlockState &block, const Waiting &who)
{
    std::string text = "every thread waits for ever in block (" +
                       triple(block.ctaid.x, block.ctaid.y, block.ctaid.z) + "): ";
    const char *separator = "";
    for (uint32_t id = 0; id < kBarriers; ++id) {
        if (!who.at_barrier[id]) continue;
        text += separator +
                format("%u at barrier %u for %u threads", who.at_barrier[id], id, who.expected[id]);
        separator = "; ";
    }
    for (size_t i = 0; i < who.meetings.size() && i < 4; ++i) {
        const auto &[warp, m] = who.meetings[i];
        text += separator + format("lanes %08x of warp %u in a warp operation under mask %08x",
                                   m.arrived, warp, m.mask);
        separator = "; ";
    }
    return text + " (not every thread that a barrier or a mask counts comes to it)";
}

std::string describe_deadlock(const Block &b)
{
    Waiting who;
    for (uint32_t i = 0; i < b.threads; ++i)
        if (b.fibers[i].wait == Wait::barrier && b.fibers[i].stack)
            ++who.at_barrier[b.fibers[i].barrier];
    for (uint32_t id = 0; id < kBarriers; ++id)
        who.expected[id] = b.barriers[id].expected() ? b.barriers[id].expected() : b.live;
    for (uint32_t w = 0; w * kWarp < b.threads; ++w)
        for (uint32_t i = 0; i < b.warps[w].meetings_open; ++i)
            who.meetings.emplace_back(w, b.warps[w].meetings[i]);
    return describe_deadlock(b.state, who);
}

}  // namespace rgpu::softgpu::exec
