// SPDX-License-Identifier: Apache-2.0
// Guesses by what followed the same read last time: each read that directly followed a wait names
// its successor.
#include "interpose/stream/read_ahead.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>

#include "interpose/mirror/addresses.h"
#include "interpose/mirror/mirror.h"
#include "interpose/state/capture.h"
#include "interpose/state/client.h"
#include "interpose/state/process.h"
#include "interpose/state/servers.h"

namespace rgpu::interpose::read_ahead {

namespace {

struct Read {
    HandleId context = 0, stream = 0;
    CUdeviceptr device = 0;
    size_t bytes = 0;
    auto operator<=>(const Read &) const = default;
};

// A guess that was right this often is worth its bytes; one that was wrong loses as much.
constexpr int kTrusted = 2, kMostTrusted = 4;
constexpr size_t kMostBytes = 64 << 10;
constexpr size_t kMostRemembered = 64;

struct Successor {
    Read read;
    int trust = 0;
};

struct Memory {
    std::mutex mutex;
    std::map<Read, Successor> after;
    Read last;             // the last read that directly followed a wait
    bool guessed = false;  // `ahead` is under way or there: what followed `last`
    Read guess;
    Ahead ahead;
    const Wait *wait = nullptr;  // the last wait, and whether it is over and was alone
    bool over = false;
    uint64_t sent = 0, heard = 0;  // calls and answers until it was over
};

Memory &memory() { return client_part<EachServer<Memory>>(Part::read_ahead)(); }

bool possible()
{
    return !client_counter(Counter::written_elsewhere).load(std::memory_order_relaxed) &&
           !mirror::active() && !any_capture() && !every_call_waits();
}

// With the mutex held: the bytes of the last guess were for nothing.
void distrust(Memory &m)
{
    if (auto it = m.after.find(m.last); it != m.after.end()) it->second.trust -= kTrusted;
    m.guessed = false;
}

// With the mutex held.
void learn(Memory &m, const Read &now)
{
    if (m.after.size() >= kMostRemembered) m.after.clear();
    Successor &s = m.after[m.last];
    if (s.read != now) s = {now, 0};
    s.trust = std::min(s.trust + 1, kMostTrusted);
    m.last = now;
}

}  // namespace

Wait::Wait(HandleId stream)
{
    Memory &m = memory();
    std::lock_guard lock(m.mutex);
    m.wait = nullptr;
    m.over = false;
    if (!session() || !possible()) return;
    if (m.guessed) distrust(m);
    m.wait = this;
    m.sent = session()->sent() + 1;    // the question
    m.heard = session()->heard() + 1;  // its answer
    const auto next = m.after.find(m.last);
    if (next == m.after.end() || next->second.trust < kTrusted) return;
    const Read &r = next->second.read;
    const bool same_stream = stream != kNoStream && r.stream == stream;
    const bool legacy = r.stream < 2 &&
                        !client_counter(Counter::streams_pass_by).load(std::memory_order_relaxed);
    if (r.context != current_context() || (!same_stream && !legacy) ||
        !is_device_range(r.device, r.bytes))
        return;
    m.guess = r;
    const auto body = [&](wire::Writer &w) {
        w.value(r.device), w.value(uint64_t{r.bytes}), w.value(r.stream);
    };
    m.guessed = session()->ask_ahead(calls::CallId::cuMemcpyDtoHAsync_v2, r.context, body, m.ahead,
                                     r.bytes);
    m.sent += m.guessed;
}

void Wait::over()
{
    Memory &m = memory();
    std::lock_guard lock(m.mutex);
    m.over = m.wait == this && m.sent == session()->sent() && m.heard == session()->heard();
}

bool take(void *host, CUdeviceptr device, size_t bytes, HandleId stream)
{
    if (bytes > kMostBytes || !possible()) return false;
    Memory &m = memory();
    std::lock_guard lock(m.mutex);
    if (!m.over || m.sent != session()->sent() || m.heard != session()->heard()) return false;
    m.over = false;
    const Read now{current_context(), stream, device, bytes};
    const bool there = m.guessed && m.guess == now &&
                       session()->take_ahead(m.ahead, host) == CUDA_SUCCESS;
    if (m.guessed && !there) distrust(m);
    m.guessed = false;
    learn(m, now);
    return there;
}

void streams_pass_by()
{
    client_counter(Counter::streams_pass_by).store(1, std::memory_order_relaxed);
}
void written_elsewhere()
{
    client_counter(Counter::written_elsewhere).store(1, std::memory_order_relaxed);
}

}  // namespace rgpu::interpose::read_ahead
