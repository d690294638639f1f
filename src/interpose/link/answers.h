// SPDX-License-Identifier: Apache-2.0
// The answers that calls wait for, and who reads them.
//
// There is no thread that only reads. Of the threads that wait for an answer one reads at a time,
// for all of them: it hands the others theirs, and when its own has come another one goes on. The
// pump (pump.h) reads what comes while nobody waits.
//
// Owns the Answers of posted copies from expect() until they are over; every other one is its
// caller's (answer.h).
//
// Threads: any, everywhere, but for what says otherwise. The lock is taken inside, is held for
// moments, and never while bytes are waited for. A thread that has the call buffer's lock may come
// here, and nothing here takes that one.
//
// Failure: once the connection is lost, every answer that is awaited is done, with its code.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "interpose/base/forecasting.h"
#include "interpose/link/announcements.h"
#include "interpose/link/answer.h"
#include "interpose/link/connection.h"
#include "interpose/link/copy_meter.h"
#include "interpose/link/frame_reader.h"

namespace rgpu::interpose {

class Answers {
public:
    // All of them outlive this. Nobody else reads from `reader`.
    Answers(Connection &connection, FrameReader &reader, Announcements &announcements,
            CopyMeter &large_copies)
        : connection_(connection), reader_(reader), announcements_(announcements),
          large_copies_(large_copies)
    {}
    Answers(const Answers &) = delete;
    Answers &operator=(const Answers &) = delete;

    // Before the first call: waits and answers are told to it.
    void use(Forecaster &forecaster) { forecaster_ = &forecaster; }

    // The call of that number is about to be sent, and this awaits its answer. Where it throws, it
    // is not awaited.
    void expect(uint32_t sequence, Awaited &awaited);

    // Returns when the answer is there, and it.
    CUresult wait(Answer &a);
    // The same for a question that is none of the program's.
    CUresult wait_uncounted(Answer &a);
    // The same for one that went out before anybody waited (`ahead`): no round trip of its own, in
    // most cases.
    void wait_ahead(Answer &a);
    // The same for the answer to a block of something large: a server that read the block has the
    // next one already.
    CUresult wait_block(Answer &a);
    bool is_done(const Answer &a);

    // Reads what has come, unless another thread reads; whether none does.
    bool read_if_nobody_does();
    // The same, waiting a moment if nothing has come; for the pump.
    void take_pushes();

    // Whether some thread waits for an answer.
    bool anybody_waits();
    // Whether an answer has come as soon as one from the same host.
    bool are_near() const { return near_.load(std::memory_order_relaxed); }
    // How many frames came, but for text and answers that are no news.
    uint64_t heard() const
    {
        return heard_.load(std::memory_order_acquire) + announcements_.heard();
    }

    // Whether bytes are under way into the program's memory that nobody waits for; and whether to
    // any of these, those of that stream aside.
    bool copies_under_way() const { return copies_under_way_ != 0; }
    bool comes_into(const void *at, size_t bytes, std::optional<uint64_t> but_of);
    // Whether something is to come that nobody may be waiting for.
    bool pushes_expected() const { return announcements_.expected() || copies_under_way(); }

private:
    using Lock = std::unique_lock<std::mutex>;

    void read_until(Lock &, const bool &done);
    void read_one(Lock &);
    void read_one_for_all(Lock &);
    void let_answered(Lock &);
    void fail_all();
    bool read_frame_or_lose();
    bool read_frame();
    bool take(const wire::FrameHeader &h);
    bool take_reply(const wire::FrameHeader &h);
    bool take_data(const wire::FrameHeader &h);
    void finish(Answer &);
    void came(const Answer &, const wire::FrameHeader &, bool last);
    void waited(const Answer &, double since);
    double forecast_now() const { return forecaster_ ? Forecaster::now() : 0; }

    Connection &connection_;
    FrameReader &reader_;
    Forecaster *forecaster_ = nullptr;  // null: no forecast is made
    Announcements &announcements_;
    CopyMeter &large_copies_;

    std::mutex mutex_;
    std::condition_variable answered_;  // for those that wait while another thread reads
    bool reading_ = false;              // some thread does
    bool answered_one_ = false;         // the last frame ended what somebody waits for, or may
    std::atomic<unsigned> untaken_{0};  // answers delivered, but not yet picked up
    uint64_t delivered_ = 0;            // how many answers there have been,
    uint64_t given_up_ = 0;             // and were when a yield took too long
    std::unordered_map<uint32_t, Answer *> awaited_;
    std::atomic<size_t> copies_under_way_{0};
    std::atomic<uint64_t> heard_{0};
    std::atomic<bool> near_{false};
};

}  // namespace rgpu::interpose
