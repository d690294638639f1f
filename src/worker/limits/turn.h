// SPDX-License-Identifier: Apache-2.0
// This worker's turns on one GPU (doc/sharing.md): it launches only while its tenant has the GPU's
// token.
//
// The dispatcher calls begin() before and issued() after each launch. While the tenant has the
// token that costs a few instructions. Where work ends is seen by events that are recorded behind
// groups of launches, in a thread of this object: nothing waits for it but the token, and, when too
// much is unfinished, the next launch.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "calls/cuda_api.h"
#include "serverd/meter.h"
#include "share/policy.h"
#include "share/seat.h"
#include "worker/limits/estimates.h"

namespace rgpu::worker {

// A wait of the program's for all work of a stream, in another thread than the dispatcher's.
class StreamWait {
public:
    // Around the driver's wait.
    void begin() { state_ = kRuns; }
    void end() { state_ = kOver, state_.notify_all(); }

    bool runs() const { return state_ == kRuns; }
    bool over() const { return state_ == kOver; }
    void until_over() const { state_.wait(kRuns); }  // only of one that runs

private:
    enum State { kQueued, kRuns, kOver };
    std::atomic<State> state_{kQueued};
};

class Turn {
public:
    struct Settings {
        std::string lease;
        serverd::GpuMeter *meter = nullptr;        // what it counts into
        int64_t max_kernel = 0;                    // nanoseconds; 0: no limit
        std::function<void(int64_t)> broke_limit;  // told how long it has run; does not return
    };
    // Lives as long as the process. `place` is what rgpud gave for the GPU. Fails where there is no
    // scheduler.
    static Result<Turn *> start(int place, Settings);

    // --- the dispatcher's, with the launch's context current

    // May wait for the token, and until there is room for more unfinished work.
    void begin(const void *work, CUstream stream)
    {
        if (work != last_work_ || (legacy_dirty_ && !is_legacy(stream))) prepare(work, stream);
        share::Told &told = seat_->told();
        told.launches.fetch_add(1, std::memory_order_seq_cst);
        if (!seat_->may_launch() || told.completed.load(std::memory_order_seq_cst) == issued_ ||
            ahead_.load(std::memory_order_relaxed) + last_.each >
                limit_.load(std::memory_order_relaxed)) {
            told.launches.fetch_sub(1);
            begin_slowly();
        }
        issued_++;
        ahead_.fetch_add(last_.each, std::memory_order_relaxed);
    }
    void issued(CUcontext, CUstream);
    // Launches have been issued that no event stands behind.
    bool unmarked() const { return unmarked_ != 0; }
    // Nobody else is on the GPU: events may be fewer.
    bool alone() const { return !seat_->has_ceiling() && seat_->alone(); }
    // Records events behind all that was issued.
    void mark();
    // The context is about to end; its work has ended.
    void forget(CUcontext);
    // The program waits for a stream's work, or for all of the context's. To be told when the wait
    // begins and ends; null where no event would be recorded for that work. An event that is
    // recorded behind the wait would make the stream look busy: the wait takes its place.
    std::shared_ptr<StreamWait> waits(CUcontext, CUstream);
    std::shared_ptr<StreamWait> waits(CUcontext);
    void copied(size_t bytes) { seat_->told().bytes.fetch_add(bytes, std::memory_order_relaxed); }

    // --- any thread
    // How many streams stand at a host function.
    void gates(uint32_t count) { seat_->told().gates = count, gate_changes_++; }

private:
    struct UsedStream {
        CUcontext context = nullptr;
        CUstream stream = nullptr;
        std::shared_ptr<StreamWait> wait;  // where the program waits for all of it
    };
    // What shows that a place's work has ended: an event, a wait, or neither where it is known.
    struct Point {
        CUcontext context = nullptr;
        CUevent event = nullptr;
        std::shared_ptr<StreamWait> wait;
    };
    // A group of launches with the events behind it.
    struct Mark {
        std::vector<Point> points;
        std::vector<Group> groups;
        uint64_t upto = 0;  // launches in all
        int64_t began = 0, expected = 0;
        bool reliable = true;  // so long it will take
        uint32_t gate_changes =
            0;  // when it began: what stood at a host function says nothing of kernels
    };

    Turn(std::unique_ptr<share::Seat> seat, Settings settings)
        : seat_(std::move(seat)), settings_(std::move(settings))
    {}
    static bool is_legacy(CUstream s) { return s == nullptr || s == CU_STREAM_LEGACY; }
    void prepare(const void *work, CUstream);
    void begin_slowly();
    bool record(const UsedStream &, Point &);
    template <class Which> std::shared_ptr<StreamWait> waits_where(Which);
    void watch();
    void await(const Point &, const Mark &);
    void finished(Mark);
    void note_memory();
    void guard_limit();

    const std::unique_ptr<share::Seat> seat_;
    const Settings settings_;

    // The dispatcher's.
    const void *last_work_ = nullptr;
    Estimate last_;  // how long last_work_ takes
    uint64_t issued_ = 0, unmarked_ = 0;
    bool unmarked_reliable_ = true;
    int64_t unmarked_expected_ = 0, began_ = 0;
    bool legacy_dirty_ = false;
    uint64_t seen_done_ = 0;
    int64_t patience_ = 0;
    int impatient_ = 0;
    uint32_t group_gates_ = 0;
    std::vector<UsedStream> dirty_;
    std::vector<Group> groups_;

    std::atomic<int64_t> ahead_{0}, limit_{0};  // nanoseconds of unfinished work: expected, allowed
    std::atomic<uint32_t> gate_changes_{0};

    std::mutex mutex_;
    std::condition_variable marked_, progressed_;
    std::deque<Mark> marks_;
    bool watching_ = false;  // a mark is being looked after, and is in marks_ no more
    std::vector<Point> spare_;
    Estimates estimates_;
    int64_t done_at_ = 0, memory_at_ = 0;
};

}  // namespace rgpu::worker
