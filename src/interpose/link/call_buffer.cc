// SPDX-License-Identifier: Apache-2.0
#include "interpose/link/call_buffer.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "calls/handles.h"
#include "interpose/base/result.h"
#include "interpose/base/stats.h"
#include "interpose/link/clock.h"
#include "interpose/link/not_cancelled.h"
#include "wire/bands.h"
#include "wire/lanes.h"

namespace rgpu::interpose {

using namespace std::chrono_literals;
using wire::FrameHeader;

namespace {

constexpr size_t kFlushAt = 32 << 10;          // bytes gathered before they leave by themselves
constexpr size_t kGatheredPayload = 8 << 10;   // what is copied rather than sent by itself
constexpr uint64_t kServerIdleAfter = 20'000;  // ns since the last flush: then send at once

}  // namespace

void CallBuffer::use(Packing &packing)
{
    packing_ = &packing;
    const std::lock_guard lock(mutex_);
    const size_t at = out_.size();
    begin(wire::kPackingCall, calls::kNoHandle, 0);
    wire::Writer(out_).value(wire::Packing());
    constexpr uint32_t bytes = sizeof(wire::Packing);
    memcpy(&out_[at], &bytes, sizeof bytes);
}

void CallBuffer::set_one_of_several(unsigned index, ContextThere context_there)
{
    index_ = index;
    context_there_ = context_there;
}

CUresult CallBuffer::begin_lanes(std::vector<net::OwnSocket> lanes, bool always, Answer &answer)
{
    const auto id = static_cast<calls::CallId>(wire::kLanesCall);
    const auto count = static_cast<uint32_t>(lanes.size());
    Awaited awaited(answer);
    const Asking asking(asking_, awaited.goes_first());
    const std::lock_guard lock(mutex_);
    if (const CUresult lost = connection_.state()) return refuse(awaited, lost);
    connection_.laned()->add(std::move(lanes));
    answer.begins_lanes = true;
    const auto body = [&](wire::Writer &w) { w.value(wire::LanesCall{count, always}); };
    const CUresult r = append(id, calls::kNoHandle, body, {}, awaited);
    connection_.laned()->begin_sending(always);
    return r;
}

uint32_t CallBuffer::frames()
{
    const std::lock_guard lock(mutex_);
    return sequence_;
}

void CallBuffer::let_others()
{
    constexpr int kMostYields = 1000;  // they may have lost the processor
    sched_yield();                     // to who has an answer, too
    for (int i = 1; i < kMostYields && asking_.load(std::memory_order_relaxed); i++) sched_yield();
}

void CallBuffer::sleep(Lock &lock)
{
    asleep_ = true;
    wanted_.wait(lock);
    asleep_ = false;
}

void CallBuffer::sleep_until(Lock &lock, std::chrono::steady_clock::time_point then)
{
    asleep_ = true;
    wanted_.wait_until(lock, then);
    asleep_ = false;
}

CUresult CallBuffer::refuse(const Awaited &awaited, CUresult why)
{
    if (Answer *const a = awaited.answer) a->reply.result = why, a->done = true;
    return why;
}

CUresult CallBuffer::refuse_unserved(calls::CallId id, const Awaited &awaited)
{
    say_unserved(id);
    return refuse(awaited, CUDA_ERROR_NOT_SUPPORTED);
}

// The frame's header; commit() adds its length.
void CallBuffer::begin(uint16_t type, uint32_t context, uint16_t flags)
{
    FrameHeader h;
    h.type = type;
    h.flags = flags;
    h.sequence = ++sequence_;
    // What lies where puts no work into a stream.
    if (type != wire::kPlacedCall) sent_.fetch_add(1, std::memory_order_release);
    const ContextThere there = context_there_.load(std::memory_order_relaxed);
    h.value = there && context ? there(context, index_) : context;
    wire::Writer(out_).value(h);
}

// The frame that begins at `at` has its body: it is awaited, and leaves or stays.
CUresult CallBuffer::commit(calls::CallId id, size_t at, Payload payload, Awaited &awaited)
{
    auto bytes = static_cast<uint32_t>(out_.size() - at - sizeof(FrameHeader) + payload.bytes);
    memcpy(&out_[at], &bytes, sizeof bytes);
    if (payload.bytes <= kGatheredPayload) {
        wire::Writer(out_).bytes(payload.data, payload.bytes);
        payload = {};
    }
    const bool idle = at == 0 && now_ns() - last_flush_ > kServerIdleAfter;
    const bool later = !awaited.goes_at_once() && !idle && !payload.bytes &&
                       out_.size() < kFlushAt && watched_;
    const bool packed = !later && packs(at, bytes, payload);
    const size_t begun = packed ? begin_parts(at, payload) : 0;
    if (forecaster_ && awaited.answer) [[unlikely]]
        awaited.answer->trip = forecaster_->ask(id, awaited.answer->copy);
    answers_.expect(sequence_, awaited);

    // From here on nothing throws.
    if (forecaster_) [[unlikely]]
        forecaster_->put(id);
    if (payload.bytes) large_copies_.carried(payload.bytes);
    // The pump is for what stays behind here, and for what comes while nobody waits.
    if (asleep_ && (later || answers_.pushes_expected())) wanted_.notify_one();
    if (later) return CUDA_SUCCESS;
    const CUresult sent = send_or_lose([&] {
        if (packed) return send_parts(begun, payload);
        CUresult r = send_gathered();
        return !r && payload.bytes ? send_bytes(payload.data, payload.bytes) : r;
    });
    if (forecaster_) [[unlikely]]
        forecaster_->left();
    return sent;
}

void CallBuffer::flush()
{
    if (is_empty()) return;
    send_gathered();
    if (forecaster_) [[unlikely]]
        forecaster_->left();
}

// Bytes that have left cannot be taken back.
template <class Send> CUresult CallBuffer::send_or_lose(Send &&send)
{
    try {
        return send();
    } catch (...) {
        result_of_exception("sending a call");
        connection_.lose("this process lacks the memory to send a call");
        return connection_.state();
    }
}

CUresult CallBuffer::send_gathered()
{
    if (out_.empty()) return CUDA_SUCCESS;
    CUresult r = send_bytes(out_.data(), out_.size());
    out_.clear();
    last_flush_ = now_ns();
    return r;
}

// Whether the frame that begins at `at` goes packed. What is in front of its payload is a part of
// its own.
bool CallBuffer::packs(size_t at, size_t bytes, Payload payload) const
{
    if (!packing_ || bytes < net::Packer::kLeastPayload ||
        (payload.bytes && out_.size() - at > wire::kPartBytes))
        return false;
    const size_t body = at + sizeof(FrameHeader);
    return payload.bytes ? packing_->out.takes(payload.data, payload.bytes)
                         : packing_->out.takes(&out_[body], out_.size() - body);
}

// Puts the head of the first part in front of the frame that begins at `at`; where in the buffer
// the parts behind it begin. A payload that lies in the buffer, too, is all behind the header.
size_t CallBuffer::begin_parts(size_t at, Payload &payload)
{
    const size_t head = payload.bytes ? out_.size() - at : sizeof(FrameHeader);
    const FrameHeader h = packing_->out.head(head);
    auto first = reinterpret_cast<const uint8_t *>(&h);
    out_.insert(out_.begin() + static_cast<ptrdiff_t>(at), first, first + sizeof h);
    const size_t begun = at + sizeof h + head;
    if (!payload.bytes) payload = {&out_[begun], out_.size() - begun};
    return begun;
}

// What was gathered, up to where the parts begin, and then the parts.
CUresult CallBuffer::send_parts(size_t begun, Payload payload)
{
    net::Packer &packer = packing_->out;
    const uint64_t taken = packer.taken(), made = packer.made();
    CUresult r = send_bytes(out_.data(), begun);
    for (auto p = static_cast<const uint8_t *>(payload.data); !r && payload.bytes;) {
        const size_t n = std::min<size_t>(payload.bytes, wire::kPartBytes);
        payload.bytes -= n;
        const auto part = packer.part(p, n, !payload.bytes);
        r = send_bytes(part.data(), part.size());
        p += n;
    }
    out_.clear();
    last_flush_ = now_ns();
    count_packed(packer.method(), packer.taken() - taken, packer.made() - made);
    return r;
}

CUresult CallBuffer::send_bytes(const void *data, size_t bytes)
{
    const NotCancelled here;
    auto p = static_cast<const char *>(data);
    bool refused = false;  // though there was room: a kernel that is short of memory
    while (bytes) {
        if (CUresult lost = connection_.state()) return lost;
        if (!connection_.is_ours()) return connection_.state();
        const iovec part{const_cast<char *>(p), bytes};
        const ssize_t n = connection_.transport().send(&part, 1, 0);
        if (n > 0) {
            count_sent(static_cast<size_t>(n));
            if (forecaster_) [[unlikely]]
                forecaster_->sent(static_cast<size_t>(n));
            p += n, bytes -= static_cast<size_t>(n);
            refused = false;
        } else if (n < 0 && errno == EAGAIN) {
            wait_for_room(refused);
        } else {
            connection_.lose(errno);
        }
    }
    return connection_.state();
}

// The server may itself be waiting until we read: does that rather than only wait. `refused`: the
// last send was, though there was room.
void CallBuffer::wait_for_room(bool &refused)
{
    using enum net::Transport::Event;
    net::Transport &transport = connection_.transport();
    net::LanedTransport *const laned = connection_.laned();
    // Where it comes in records, another reader may go on to another descriptor than is looked at
    // here.
    const unsigned there = transport.wait(kData | kRoom, laned && laned->lanes() ? 5 : 1000);
    const bool room = there & kRoom, refused_again = room && refused;
    refused = room;
    if (refused_again) std::this_thread::sleep_for(1ms);
    if (!(there & kData) || (room && !refused_again)) return;
    if (!answers_.read_if_nobody_does()) transport.wait(kRoom, 1);
}

}  // namespace rgpu::interpose
