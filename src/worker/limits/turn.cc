// SPDX-License-Identifier: Apache-2.0
#include "worker/limits/turn.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <thread>

#include "worker/driver/driver.h"

namespace rgpu::worker {

using share::kMillisecond;
using share::kSecond;

namespace {

// An event stands behind this much work: seldom where nobody waits for its end.
constexpr int64_t kGroup = kMillisecond, kGroupAlone = 20 * kMillisecond;
// What is unfinished may wait for something that only comes behind the next launch: a host
// function's end, a value in memory. Without any progress the launch is let through after this
// time.
constexpr int64_t kPatience = 100 * kMillisecond;
constexpr int kMostImpatient = 16, kMostImpatientAlone = 1024;
constexpr int64_t kLookAlone = 5 * kMillisecond;
constexpr size_t kMaxKinds = 32, kMaxStreams = 16;
// What was done is written down this often, for those who look.
constexpr int64_t kReport = kSecond / 4;

}  // namespace

Result<Turn *> Turn::start(int place, Settings settings)
{
    auto seat = share::Seat::take(place);
    if (!seat) return std::move(seat).error();
    auto turn = new Turn(std::move(*seat), std::move(settings));
    turn->limit_ = turn->seat_->ahead(share::clock_now());
    std::thread([turn] { turn->watch(); }).detach();
    if (turn->settings_.max_kernel) std::thread([turn] { turn->guard_limit(); }).detach();
    return turn;
}

void Turn::prepare(const void *work, CUstream stream)
{
    // An event in the legacy stream waits for all that other streams got before it: it must not
    // come after them.
    if (legacy_dirty_ && !is_legacy(stream)) mark();
    last_work_ = work;
    std::lock_guard lock(mutex_);
    last_ = estimates_.of(work);
}

void Turn::begin_slowly()
{
    mark();
    const share::Told &told = seat_->told();
    for (;;) {
        const int64_t now = share::clock_now();
        limit_ = seat_->ahead(now);
        const uint64_t done = told.completed;
        if (done != seen_done_) seen_done_ = done, patience_ = now + kPatience, impatient_ = 0;
        const bool full = done != issued_ && ahead_ + last_.each > limit_;
        if (full && seat_->may_launch() && !told.gates && now < patience_) {
            std::unique_lock lock(mutex_);
            if (told.completed == done) progressed_.wait_for(lock, std::chrono::milliseconds(5));
            last_ = estimates_.of(last_work_);
            continue;
        }
        if (seat_->ask()) {
            // The end of the work before may be told of at this moment: in order with it.
            std::lock_guard lock(mutex_);
            seat_->began(now);
            // Not without end, so that not everything is queued behind a long kernel, and others
            // wait for all of it.
            if (full && ++impatient_ > (alone() ? kMostImpatientAlone : kMostImpatient)) {
                patience_ = now + kPatience;
                impatient_ = 0;
            }
            break;
        }
        seat_->wait();
        const int64_t waited = share::clock_now() - now;
        (seat_->at_ceiling() ? settings_.meter->throttled : settings_.meter->blocked)
            .fetch_add(waited, std::memory_order_relaxed);
    }
    limit_ = seat_->ahead(share::clock_now());
}

void Turn::issued(CUcontext context, CUstream stream)
{
    if (!unmarked_++) began_ = share::clock_now(), group_gates_ = gate_changes_;
    settings_.meter->launches.fetch_add(1, std::memory_order_relaxed);
    unmarked_expected_ += last_.each;
    unmarked_reliable_ = unmarked_reliable_ && last_.reliable;
    legacy_dirty_ = legacy_dirty_ || is_legacy(stream);
    if (dirty_.empty() || dirty_.back().stream != stream || dirty_.back().context != context) {
        auto same = [&](const UsedStream &p) { return p.stream == stream && p.context == context; };
        std::erase_if(dirty_, same);
        dirty_.push_back({context, stream, nullptr});
    }
    dirty_.back().wait = nullptr;  // an earlier wait does not cover this launch
    auto group = std::find_if(groups_.rbegin(), groups_.rend(), [&](const Group &g) {
        return g.work == last_work_ && g.each == last_.each;
    });
    if (group != groups_.rend())
        group->count++;
    else
        groups_.push_back({last_work_, 1, last_.each});
    if (unmarked_expected_ >= (alone() ? kGroupAlone : kGroup) || groups_.size() >= kMaxKinds ||
        dirty_.size() >= kMaxStreams)
        mark();
}

template <class Which> std::shared_ptr<StreamWait> Turn::waits_where(Which which)
{
    std::shared_ptr<StreamWait> wait;
    for (UsedStream &place : dirty_)
        if (which(place)) {
            if (!wait) wait = std::make_shared<StreamWait>();
            place.wait = wait;
        }
    return wait;
}

std::shared_ptr<StreamWait> Turn::waits(CUcontext context, CUstream stream)
{
    return waits_where(
        [&](const UsedStream &p) { return p.stream == stream && p.context == context; });
}

std::shared_ptr<StreamWait> Turn::waits(CUcontext context)
{
    return waits_where([&](const UsedStream &p) { return p.context == context; });
}

bool Turn::record(const UsedStream &place, Point &point)
{
    point.context = place.context;
    if (place.wait && place.wait->over()) return true;
    if (place.wait && place.wait->runs()) {
        point.wait = place.wait;
        return true;
    }
    // What a capture takes in is not carried out, and an event would become part of it.
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    if (DRIVER(cuStreamIsCapturing)(place.stream, &capture) ||
        capture != CU_STREAM_CAPTURE_STATUS_NONE)
        return false;
    {
        std::lock_guard lock(mutex_);
        for (Point &p : spare_)
            if (p.context == place.context) {
                point.event = p.event;
                p = spare_.back();
                spare_.pop_back();
                break;
            }
    }
    if (!point.event &&
        DRIVER(cuEventCreate)(&point.event, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC))
        return false;
    if (!DRIVER(cuEventRecord)(point.event, place.stream)) return true;
    // The stream or the context has failed: its work has ended.
    DRIVER(cuEventDestroy_v2)(point.event);
    return false;
}

void Turn::mark()
{
    if (!unmarked_) return;
    Mark m;
    CUcontext current = nullptr, used = nullptr;
    DRIVER(cuCtxGetCurrent)(&current);
    used = current;
    for (const UsedStream &place : dirty_) {
        if (place.context != used) DRIVER(cuCtxSetCurrent)(used = place.context);
        Point point;
        if (record(place, point)) m.points.push_back(point);
    }
    if (used != current) DRIVER(cuCtxSetCurrent)(current);
    m.groups.swap(groups_);
    m.upto = issued_;
    m.began = began_;
    m.gate_changes = group_gates_;
    m.expected = unmarked_expected_;
    m.reliable = unmarked_reliable_;
    unmarked_ = 0;
    unmarked_reliable_ = true;
    unmarked_expected_ = 0;
    legacy_dirty_ = false;
    dirty_.clear();
    std::lock_guard lock(mutex_);
    if (marks_.empty() && !watching_) seat_->told().under_way = m.began;
    marks_.push_back(std::move(m));
    marked_.notify_one();
    if (last_work_) last_ = estimates_.of(last_work_);
}

void Turn::forget(CUcontext context)
{
    mark();
    std::unique_lock lock(mutex_);
    progressed_.wait(lock, [&] { return marks_.empty() && !watching_; });
    std::erase_if(spare_, [&](const Point &p) {
        if (p.context != context) return false;
        DRIVER(cuEventDestroy_v2)(p.event);
        return true;
    });
}

// Where nobody waits for the end, it is enough to look now and then: a thread that waits in the
// driver can cost each kernel something (softgpu wakes it whenever one ends). What nobody can tell
// yet is waited for: until it has ended, too little is launched.
void Turn::await(const Point &point, const Mark &m)
{
    if (point.wait) return point.wait->until_over();
    if (!point.event) return;
    const CUevent event = point.event;
    const int64_t likely = std::max(m.began, done_at_) + m.expected * 3 / 4;
    while (m.reliable && alone()) {
        if (DRIVER(cuEventQuery)(event) != CUDA_ERROR_NOT_READY) return;
        const int64_t pause = std::clamp(likely - share::clock_now(), kLookAlone, kGroupAlone);
        std::this_thread::sleep_for(std::chrono::nanoseconds(pause));
    }
    // The estimate may be far off: it is believed for a millisecond.
    const int64_t pause = std::min(likely - share::clock_now(), kGroup);
    if (m.reliable && pause > 0 && DRIVER(cuEventQuery)(event) == CUDA_ERROR_NOT_READY)
        std::this_thread::sleep_for(std::chrono::nanoseconds(pause));
    DRIVER(cuEventSynchronize)(event);
}

// The thread that sees work end.
void Turn::watch()
{
    std::unique_lock lock(mutex_);
    for (;;) {
        if (marks_.empty()) {
            marked_.wait_for(lock, std::chrono::nanoseconds(kReport),
                             [&] { return !marks_.empty(); });
            seat_->look_again();
            continue;
        }
        Mark m = std::move(marks_.front());
        marks_.pop_front();
        watching_ = true;
        lock.unlock();
        for (const Point &p : m.points) {
            DRIVER(cuCtxSetCurrent)(p.context);
            await(p, m);
        }
        note_memory();
        finished(std::move(m));
        lock.lock();
        watching_ = false;
        progressed_.notify_all();
    }
}

// The tenant's memory now and then, in the context whose work has just ended: it lives until
// forget() comes by.
void Turn::note_memory()
{
    const int64_t now = share::clock_now();
    size_t free = 0, total = 0;
    if (now < memory_at_ || DRIVER(cuMemGetInfo_v2)(&free, &total)) return;
    seat_->told().memory = static_cast<int64_t>(total - free);
    serverd::raise(settings_.meter->memory_peak, total - free);
    memory_at_ = now + kReport;
}

void Turn::finished(Mark m)
{
    const int64_t now = share::clock_now(), took = now - std::max(m.began, done_at_);
    int64_t launches = 0;
    for (const Group &g : m.groups) launches += g.count;
    // Of several, the one that took longer than all were expected to.
    const int64_t longest = launches == 1           ? took
                            : took > 2 * m.expected ? took - m.expected
                                                    : took / std::max<int64_t>(launches, 1);
    if (longest > seat_->told().longest) seat_->told().longest = longest;
    done_at_ = now;
    ahead_ -= m.expected;
    limit_ = seat_->ahead(now);
    std::unique_lock lock(mutex_);
    if (m.gate_changes == gate_changes_ && !seat_->told().gates) estimates_.learn(m.groups, took);
    for (const Point &p : m.points)
        if (p.event) spare_.push_back(p);
    seat_->told().under_way = marks_.empty() ? 0 : now;
    const bool tell = seat_->completed(m.upto, now);
    lock.unlock();
    if (tell) seat_->tell();
}

// Looks at how long what runs has been running. Time in which a stream stands at a host function
// does not count.
void Turn::guard_limit()
{
    const int64_t pause = std::clamp<int64_t>(settings_.max_kernel / 10, kMillisecond, kSecond);
    int64_t from = 0;
    for (;;) {
        std::this_thread::sleep_for(std::chrono::nanoseconds(pause));
        const int64_t now = share::clock_now(), since = seat_->told().under_way;
        if (!since || seat_->told().gates)
            from = now;
        else if (now - std::max(since, from) > settings_.max_kernel)
            settings_.broke_limit(now - std::max(since, from));
    }
}

}  // namespace rgpu::worker
