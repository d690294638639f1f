// SPDX-License-Identifier: Apache-2.0
// The sending end of a connection: one buffer of calls, that all threads put theirs into.
//
// Calls are gathered. The buffer leaves when a call in it is waited for, when it is full, when a
// call brings many bytes, or when the server would run dry; what stays behind the pump sends
// (pump.h). The order of calls is the order in which threads got the lock.
//
// Owns the bytes of calls from put() until they have left. What of a payload is large leaves before
// put() returns; Answers stay their callers'.
//
// Threads: any. The lock is held while bytes are sent, which takes as long as the server does. A
// thread that has it may go into Answers, never the other way round.
//
// Failure: put() is all or nothing. Where it throws, or refuses, the buffer is as it was before and
// no answer is awaited. Once a byte of a call has left, put() no longer throws, and what goes wrong
// loses the connection: the server would read the next call as the rest of this one.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "calls/calls.h"
#include "interpose/base/forecasting.h"
#include "interpose/base/guard.h"
#include "interpose/link/answer.h"
#include "interpose/link/answers.h"
#include "interpose/link/call_numbers.h"
#include "interpose/link/connection.h"
#include "interpose/link/copy_meter.h"
#include "interpose/link/packing.h"
#include "wire/codec.h"
#include "wire/frame.h"

namespace rgpu::interpose {

// Some bytes of the program's memory that go out behind a frame's body.
struct Payload {
    const void *data = nullptr;
    size_t bytes = 0;
};

class CallBuffer {
public:
    // All of them outlive this.
    CallBuffer(Connection &connection, Answers &answers, CopyMeter &large_copies)
        : connection_(connection), answers_(answers), large_copies_(large_copies)
    {}
    CallBuffer(const CallBuffer &) = delete;
    CallBuffer &operator=(const CallBuffer &) = delete;

    // Before the first call: what the server calls things, and how frames are packed. The server
    // hears of the packing with the first call; `packing` outlives this.
    void learn(const wire::Snapshot &snapshot) { numbers_.learn(snapshot); }
    void use(Packing &packing);
    bool server_has(calls::CallId id) const { return numbers_.has(id); }

    // Of several servers: which one it is of, and what a context's number means to that one. 0
    // unless it is a context of its own.
    using ContextThere = uint32_t (*)(uint32_t context, unsigned index);
    void set_one_of_several(unsigned index, ContextThere context_there);
    unsigned index() const { return index_; }

    // Before the first call: calls and bytes are told to it.
    void use(Forecaster &forecaster) { forecaster_ = &forecaster; }

    // Sends a call: every one goes this way. `write` puts its body into a wire::Writer, and the
    // payload follows. Where somebody waits for the answer (answer.h), the call leaves at once.
    // Where the call is refused (the connection is lost, or the server does not carry it out), the
    // answer is done with what this returns.
    template <class Write> CUresult put(calls::CallId id, uint32_t context, Write &&write,
                                        Payload payload, Awaited awaited);

    // Further connections, in the server's order, carry what is large from now on, `always` or
    // where that is faster. The answer says that they do the other way, too.
    CUresult begin_lanes(std::vector<net::OwnSocket> lanes, bool always, Answer &answer);

    // How many calls have been put, but for those on where memory lies (wire/bands.h), and how many
    // frames: one that was taken back counts as well.
    uint64_t sent() const { return sent_.load(std::memory_order_acquire); }
    uint32_t frames();

    // Between parts of something large: lets threads go first that have a question to send, or an
    // answer.
    void let_others();

    // For whoever sends what was gathered and then forgotten.
    using Lock = std::unique_lock<std::mutex>;
    Lock lock() { return Lock(mutex_); }
    // With the lock held.
    bool is_empty() const { return out_.empty(); }
    void flush();
    // Until something is gathered, or to come while nobody waits, or wake(); or until then.
    void sleep(Lock &);
    void sleep_until(Lock &, std::chrono::steady_clock::time_point);
    void wake() { wanted_.notify_one(); }
    // Whether anybody does so: else nothing stays behind. With the lock held, or before the first
    // call.
    bool is_watched() const { return watched_; }
    void set_watched(bool watched) { watched_ = watched; }

private:
    // A thread that has a question to send.
    struct Asking {
        Asking(std::atomic<int> &count, bool asks) : asking(asks ? &count : nullptr)
        {
            if (asking) ++*asking;
        }
        ~Asking()
        {
            if (asking) --*asking;
        }
        Asking(const Asking &) = delete;
        Asking &operator=(const Asking &) = delete;
        std::atomic<int> *const asking;
    };

    static CUresult refuse(const Awaited &awaited, CUresult why);
    static CUresult refuse_unserved(calls::CallId id, const Awaited &awaited);
    template <class Write> CUresult append(calls::CallId id, uint32_t context, Write &&write,
                                           Payload payload, Awaited &awaited);
    void begin(uint16_t type, uint32_t context, uint16_t flags);
    CUresult commit(calls::CallId id, size_t at, Payload payload, Awaited &awaited);
    template <class Send> CUresult send_or_lose(Send &&send);
    CUresult send_gathered();
    CUresult send_bytes(const void *data, size_t bytes);
    void wait_for_room(bool &refused);
    bool packs(size_t at, size_t bytes, Payload payload) const;
    size_t begin_parts(size_t at, Payload &payload);
    CUresult send_parts(size_t begun, Payload payload);

    Connection &connection_;
    Answers &answers_;
    CopyMeter &large_copies_;
    Packing *packing_ = nullptr;        // null: nothing is ever packed
    Forecaster *forecaster_ = nullptr;  // null: no forecast is made
    CallNumbers numbers_;
    unsigned index_ = 0;
    std::atomic<ContextThere> context_there_{nullptr};  // null: there is one server

    std::atomic<int> asking_{0};
    std::mutex mutex_;
    std::vector<uint8_t> out_;
    uint32_t sequence_ = 0;  // the last frame's
    std::atomic<uint64_t> sent_{0};
    uint64_t last_flush_ = 0;  // nanoseconds
    bool watched_ = true;
    std::condition_variable wanted_;
    bool asleep_ = false;  // somebody is in sleep()
};

template <class Write> CUresult CallBuffer::put(calls::CallId id, uint32_t context, Write &&write,
                                                Payload payload, Awaited awaited)
{
    if (const CUresult lost = connection_.state()) return refuse(awaited, lost);
    if (forecaster_) [[unlikely]]
        forecaster_->comes();
    const Asking asking(asking_, awaited.goes_first());
    const std::lock_guard lock(mutex_);
    return append(id, context, write, payload, awaited);
}

// With the lock held.
template <class Write> CUresult CallBuffer::append(calls::CallId id, uint32_t context,
                                                   Write &&write, Payload payload, Awaited &awaited)
{
    const uint16_t type = numbers_.of(id);
    if (type == CallNumbers::kNone) return refuse_unserved(id, awaited);
    const size_t at = out_.size();
    Unless committed([&] { out_.resize(at); });
    begin(type, context, awaited.flags());
    wire::Writer w(out_);
    write(w);
    const CUresult r = commit(id, at, payload, awaited);
    committed.keep();
    return r;
}

}  // namespace rgpu::interpose
