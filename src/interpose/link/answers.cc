// SPDX-License-Identifier: Apache-2.0
#include "interpose/link/answers.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "interpose/base/result.h"
#include "interpose/base/stats.h"
#include "interpose/link/clock.h"
#include "interpose/link/not_cancelled.h"
#include "interpose/link/waiting.h"

namespace rgpu::interpose {

using namespace std::chrono_literals;
using wire::FrameHeader;
using wire::ServerFrame;

namespace {

// ns for an answer: so soon, no link is empty while 1 MiB more is asked for
constexpr uint64_t kNear = 200'000;

}  // namespace

void Answers::expect(uint32_t sequence, Awaited &awaited)
{
    Answer *const a = awaited.answer;
    if (!a) return;
    a->asked = now_ns();
    std::lock_guard lock(mutex_);
    awaited_[sequence] = a;
    if (!a->waited) copies_under_way_++;
    (void)awaited.posted.release();
}

CUresult Answers::wait(Answer &a)
{
    const uint64_t since = now_ns();
    const double from = forecast_now();
    const NotCancelled here;
    Lock lock(mutex_);
    read_until(lock, a.done);
    const uint64_t now = now_ns();
    count_round_trip(now - since);
    if (a.untaken) {  // not what no server was asked
        untaken_--;
        if (now - a.asked < kNear) near_.store(true, std::memory_order_relaxed);
    }
    waited(a, from);
    return a.reply.result;
}

CUresult Answers::wait_uncounted(Answer &a)
{
    const NotCancelled here;
    Lock lock(mutex_);
    read_until(lock, a.done);
    if (a.untaken) untaken_--;
    return a.reply.result;
}

void Answers::wait_ahead(Answer &a)
{
    const double from = forecast_now();
    const NotCancelled here;
    Lock lock(mutex_);
    read_until(lock, a.done);
    waited(a, from);
}

CUresult Answers::wait_block(Answer &a)
{
    const NotCancelled here;
    Lock lock(mutex_);
    if (!a.done) a.ahead = false;
    if (!a.done && !reading_) reader_.expect_block_answer();
    read_until(lock, a.done);
    if (a.untaken) untaken_--;
    return a.reply.result;
}

bool Answers::is_done(const Answer &a)
{
    std::lock_guard lock(mutex_);
    return a.done;
}

bool Answers::read_if_nobody_does()
{
    Lock lock(mutex_);
    if (reading_) return false;
    if (reader_.input_is_there()) read_one_for_all(lock);
    return true;
}

// It never waits for longer: others' calls stay in the buffer meanwhile, and the server may be
// waiting for one of them. Whoever read last may have left frames in the reader's buffer behind its
// own answer.
void Answers::take_pushes()
{
    Lock lock(mutex_);
    if (!reading_ && !reader_.input_is_there()) {
        lock.unlock();
        const bool more = connection_.transport().wait(net::Transport::kData, 1);
        lock.lock();
        if (!more) return;
    }
    if (reading_ || !pushes_expected()) {
        answered_.wait_for(lock, 1ms);
    } else if (reader_.input_is_there()) {  // what poll() saw may be another's by now
        read_one_for_all(lock);
        let_answered(lock);
    }
}

bool Answers::anybody_waits()
{
    std::lock_guard lock(mutex_);
    return std::any_of(awaited_.begin(), awaited_.end(), [](const auto &entry) {
        return entry.second->waited && !entry.second->ahead;
    });
}

bool Answers::comes_into(const void *at, size_t bytes, std::optional<uint64_t> but_of)
{
    if (!copies_under_way()) return false;
    const auto begin = static_cast<const uint8_t *>(at), end = begin + bytes;
    std::lock_guard lock(mutex_);
    return std::any_of(awaited_.begin(), awaited_.end(), [&](const auto &entry) {
        const Answer &a = *entry.second;
        return !a.waited && a.begin < end && begin < a.end && a.stream != but_of;
    });
}

// Reads, if nobody does. The others are woken when there is something for them, or nobody to read
// on: not for each part of a large copy.
void Answers::read_until(Lock &lock, const bool &done)
{
    while (!done) {
        if (reading_) {
            answered_.wait(lock);
            continue;
        }
        read_one(lock);
        if (done || answered_one_) answered_.notify_all();
        if (!done) let_answered(lock);
    }
}

void Answers::read_one_for_all(Lock &lock)
{
    read_one(lock);
    answered_.notify_all();
}

// One frame. One thread at a time is here; it lets go of the lock while it waits for bytes.
void Answers::read_one(Lock &lock)
{
    reading_ = true, answered_one_ = false;
    lock.unlock();
    const bool stands = read_frame_or_lose();
    lock.lock();
    reading_ = false;
    if (!stands) fail_all();
}

void Answers::fail_all()
{
    for (auto &[sequence, a] : awaited_) {
        a->reply.result = connection_.state();
        a->done = true;
        if (!a->waited) delete a;
    }
    awaited_.clear();
    answered_one_ = true;
    copies_under_way_ = 0;
    announcements_.expect_none();
}

// Who reads megabytes may keep the processor for milliseconds from a thread that has its answer by
// now. Where that one has another processor, this takes no longer than its waking up; where others
// are busy on all of them, one yield may cost the rest of a time slice, and is not repeated for the
// same answers.
void Answers::let_answered(Lock &lock)
{
    constexpr uint64_t kPatience = 50'000, kSlice = 1'000'000;  // ns
    if (!untaken_ || given_up_ == delivered_) return;
    const uint64_t delivered = delivered_, begin = now_ns();
    lock.unlock();
    do sched_yield();
    while (untaken_ && now_ns() - begin < kPatience);
    lock.lock();
    if (now_ns() - begin > kSlice) given_up_ = delivered;
}

bool Answers::read_frame_or_lose()
{
    const NotCancelled here;
    try {
        return read_frame();
    } catch (...) {
        result_of_exception("what a GPU server sent");
        connection_.lose("this process lacks the memory for what it sent");
        return false;
    }
}

bool Answers::read_frame()
{
    FrameHeader h;
    return reader_.begin(h) && take(h) && reader_.end();
}

bool Answers::take(const FrameHeader &h)
{
    if (h.bytes <= wire::kMaxServerBytes) switch (static_cast<ServerFrame>(h.type)) {
        case ServerFrame::reply: return take_reply(h);
        case ServerFrame::data: return take_data(h);
        default: break;
        }
    return announcements_.take(h, reader_);
}

bool Answers::take_reply(const FrameHeader &h)
{
    std::vector<uint8_t> body(h.bytes);
    if (!reader_.body(body.data(), body.size())) return false;
    note_error(h.value);
    std::lock_guard lock(mutex_);
    const auto it = awaited_.find(h.sequence);
    if (it == awaited_.end()) return true;
    Answer &a = *it->second;
    if (a.begins_lanes) reader_.begin_lanes();
    came(a, h, true);
    // An error may come in the place of a copy's bytes, success may not.
    if (a.copy && a.left && h.value == CUDA_SUCCESS) {
        connection_.lose("the server answered a copy without its bytes");
        return false;
    }
    awaited_.erase(it);
    if (a.news) heard_.fetch_add(1, std::memory_order_release);
    a.reply = {static_cast<CUresult>(h.value), std::move(body)};
    finish(a);
    return true;
}

bool Answers::take_data(const FrameHeader &h)
{
    Answer *a = nullptr;
    {
        std::lock_guard lock(mutex_);
        if (const auto it = awaited_.find(h.sequence); it != awaited_.end()) a = it->second;
    }
    if (!a || !a->copy || h.bytes > a->left) {
        connection_.lose("the server sent data that nobody asked for");
        return false;
    }
    if (a->news) heard_.fetch_add(1, std::memory_order_release);
    if (!reader_.body(a->to, h.bytes)) return false;
    large_copies_.carried(h.bytes);
    a->to += h.bytes, a->left -= h.bytes;
    came(*a, h, h.flags & wire::kLast);
    if (h.value) a->reply.result = static_cast<CUresult>(h.value), note_error(h.value);
    if (!(h.flags & wire::kLast)) return true;
    if (a->left && !a->reply.result) {
        connection_.lose("the server ended a copy before its end");
        return false;
    }
    std::lock_guard lock(mutex_);
    awaited_.erase(h.sequence);
    finish(*a);
    return true;
}

void Answers::came(const Answer &a, const FrameHeader &h, bool last)
{
    if (!a.trip) [[likely]]
        return;
    forecaster_->came(*a.trip, reader_.came(h), last);
    if (last && !a.waited) forecaster_->copied(*a.trip);
}

void Answers::waited(const Answer &a, double since)
{
    if (a.trip) [[unlikely]]
        forecaster_->waited(*a.trip, since);
}

// With the lock held: the answer is there. A copy that nobody waits for is over with it.
void Answers::finish(Answer &a)
{
    a.done = answered_one_ = true;
    a.untaken = a.waited && !a.ahead;
    untaken_ += a.untaken, delivered_ += a.untaken;
    if (a.waited) return;
    delete &a;
    copies_under_way_--;
}

}  // namespace rgpu::interpose
