// SPDX-License-Identifier: Apache-2.0
#include "interpose/base/forecast.h"

#include <algorithm>
#include <utility>

namespace rgpu::interpose::forecast {

namespace {

// What a caller may be ahead of the line, beside what is on its way (net/transport/queues.h, and
// what the other end's kernel holds).
constexpr double kAhead = 1 << 20;

// From then on a server that has nothing to do sleeps, and so does whoever waits (util/spin.h).
constexpr double kCold = 100e-6;

constexpr LinkPace pace_of(double round_trip, double bytes_per_second)
{
    return {round_trip, 1 / bytes_per_second, 1 / bytes_per_second};
}

void add(Stamp &s, const LinkTime &more, const LinkPace &pace)
{
    s.of += more;
    s.at += more.over(pace);
}
void add(Stamp &s, double seconds) { s.at += seconds, s.of.fixed += seconds; }

void raise(Stamp &s, const Stamp &other)
{
    if (other.at > s.at) s = other;
}

// `now`, for a thread that lags.
Stamp moment(double now, Stamp lag)
{
    add(lag, now);
    return lag;
}

}  // namespace

// In steps of some four times.
constexpr std::array<LinkPace, kLinks> kPaces = [] {
    std::array<LinkPace, kLinks> all{kLocalPace};
    size_t i = 1;
    for (const double trip : {30e-6, 250e-6, 1e-3, 5e-3, 20e-3, 80e-3})
        for (const double rate : {5e6, 25e6, 125e6, 1250e6}) all[i++] = pace_of(trip, rate);
    return all;
}();

void Thread::changes(double now) { earlier_[next_++ % kEarlier] = {now, lag_}; }

// The oldest that is known where it is longer ago.
const Stamps &Thread::lag_at(double when) const
{
    const Stamps *found = &lag_;
    for (size_t i = 1; i <= std::min(next_, kEarlier); i++) {
        const Earlier &e = earlier_[(next_ - i) % kEarlier];
        if (e.until <= when) break;
        found = &e.lag;
    }
    return *found;
}

Thread &Run::begin(double when)
{
    Thread *t = nullptr;
    if (threads_.size() < kMostThreads)
        t = &threads_.emplace_back();
    else  // one that has ended, the longest ago; or the last
        for (Thread &one : threads_)
            if (!t || (!one.used_ && (t->used_ || one.acted_ < t->acted_)) || t->used_) t = &one;
    if (t->used_) return *t;
    *t = {};
    t->used_ = true;
    woke(*t, when);
    return *t;
}

void Run::woke(Thread &t, double when)
{
    bool first = t.acted_ == 0;
    t.changes(when);
    for (const Thread &other : threads_) {
        if (&other == &t || other.acted_ <= t.acted_) continue;
        const Stamps &lag = other.lag_at(when);
        for (size_t k = 0; k < kLinks; k++)
            if (first)
                t.lag_[k] = lag[k];
            else
                raise(t.lag_[k], lag[k]);
        first = false;
    }
}

bool Run::others_acted(const Thread &t) const
{
    return std::any_of(threads_.begin(), threads_.end(), [&](const Thread &other) {
        return &other != &t && other.acted_ > t.acted_;
    });
}

void Run::trips(Thread &t, double count, double now)
{
    t.changes(now);
    for (size_t k = 0; k < kLinks; k++) add(t.lag_[k], {.trips = count}, kPaces[k]);
}

void Line::put(Thread &t, std::shared_ptr<Trip> trip, double work)
{
    putter_ = &t;
    work_ += work;
    if (!trip) return;
    trip->work = work_;
    leaving_.push_back(std::move(trip));
}

Stamp Wire::carry(size_t link, Stamp then, const LinkTime &bytes)
{
    Stamp &free = free_[link];
    double &from = from_[link];
    if (then.at < from) {
        add(then, bytes, kPaces[link]);
        if (then.at > from) add(free, bytes, kPaces[link]);
        return then;
    }
    if (then.at > free.at) free = then, from = then.at;
    add(free, bytes, kPaces[link]);
    return free;
}

void Line::sent(double now, size_t bytes)
{
    if (!putter_) return;
    Stamps &lag = putter_->lag_;
    const auto n = static_cast<double>(bytes);
    for (size_t k = 0; k < kLinks; k++) {
        Stamp stands = sent_[k] = up_.carry(k, moment(now, lag[k]), {.up = n});
        add(stands, {.fixed = -now, .trips = -1, .up = -kAhead}, kPaces[k]);
        raise(lag[k], stands);
    }
}

void Line::left(double now)
{
    if (!putter_) return;
    add_point(now);
    const Point &p = points_.back();
    const double floor = now - left_at_ > kCold ? cold_floor_ : floor_;
    left_at_ = now;
    for (const auto &trip : leaving_) {
        trip->left = true;
        trip->point = p.number;
        trip->asked = now;
        trip->floor = floor;
        trip->there = p.there;
    }
    leaving_.clear();
    left_work_ = work_;
}

void Line::add_point(double now)
{
    // Of two neighbours the later one stands for both.
    if (points_.size() == kMostPoints)
        for (size_t i = 0; i < kMostPoints / 2; i++) {
            const double before = points_[i].before;
            points_.erase(points_.begin() + static_cast<ptrdiff_t>(i));
            points_[i].before = before;
        }
    Point &p = points_.emplace_back();
    p.number = ++number_;
    p.at = now;
    p.before = left_work_;
    p.there = sent_;
    for (size_t k = 0; k < kLinks; k++) add(p.there[k], {.trips = 0.5}, kPaces[k]);
}

// When the server has done what came with the points until `last`: `there` is when the last of it
// has come, `work` all that was put until then, and `done` when it was over in fact, of which the
// last part took `residual`.
void Line::finish(Stamps &there, double work, double residual, double done, uint64_t last) const
{
    const auto end = std::find_if(points_.begin(), points_.end(),
                                  [&](const Point &p) { return p.number > last; });
    const double all = end == points_.begin() ? 0 : work - points_.front().before,
                 took = end == points_.begin() ? residual
                                               : done - std::max(done_, points_.front().at);
    const auto part = [&](double before, double most) {
        return std::clamp(all > 0 ? took * (work - before) / all : took, 0.0, std::max(0.0, most));
    };
    const double own = part(end == points_.begin() ? work : std::prev(end)->before, residual);
    Stamps over = there;
    for (Stamp &s : over) add(s, own);
    // What other threads have sent before, and would send later, is not waited for.
    for (auto p = points_.begin(); p != end; ++p) {
        const double rest = part(p->before, done - p->at);
        for (size_t k = 0; k < kLinks; k++) {
            if (p->there[k].at > there[k].at || p->there[k].at + rest <= over[k].at) continue;
            over[k] = p->there[k];
            add(over[k], rest);
        }
    }
    there = over;
}

void Line::came(Trip &trip, double now, size_t bytes, bool waited, bool last)
{
    if (!trip.left) return;
    if (!trip.begun) {
        const double residual = waited ? std::max(0.0, now - trip.floor - trip.asked) : 0;
        trip.begun = true;
        trip.first = now;
        trip.done = trip.asked + residual;
        if (trip.waits)
            finish(trip.there, trip.work, residual, trip.done, trip.point);
        else
            for (Stamp &s : trip.there) add(s, residual);
    }
    const auto n = static_cast<double>(bytes);
    for (size_t k = 0; k < kLinks; k++) {
        Stamp here = trip.there[k];
        add(here, now - trip.first);
        trip.back[k] = down_.carry(k, here, {.down = n});
        add(trip.back[k], {.trips = 0.5}, kPaces[k]);
    }
    if (!last || !trip.waits) return;
    std::erase_if(points_, [&](const Point &p) { return p.number <= trip.point; });
    done_ = std::max(done_, trip.done);
}

void Line::wait_until(Thread &t, const Stamps &then, double since, double now)
{
    t.changes(now);
    for (size_t k = 0; k < kLinks; k++) {
        Stamp s = moment(since, t.lag_[k]);
        raise(s, then[k]);
        add(s, -now);
        t.lag_[k] = s;
    }
    run_.acted(t, now);
}

void Line::waited(Thread &t, const Trip &trip, double since, double now)
{
    if (trip.begun) wait_until(t, trip.back, since, now);
}

void Line::pushed(double now)
{
    Stamps there;
    for (size_t k = 0; k < kLinks; k++) add(there[k] = up_.free(k), {.trips = 0.5}, kPaces[k]);
    const double done = now - floor_;
    const double last = points_.empty() ? done_ : points_.back().at;
    finish(there, work_, std::max(0.0, done - last), done, number_);
    for (size_t k = 0; k < kLinks; k++) {
        add(there[k], {.trips = 0.5}, kPaces[k]);
        add(there[k], -now);
    }
    server_.changes(now);
    server_.lag_ = there;
    run_.acted(server_, now);
}

void Line::copied(const Trip &trip)
{
    if (trip.begun)
        for (size_t k = 0; k < kLinks; k++) raise(copied_[k], trip.back[k]);
}

void Line::waited_for_copies(Thread &t, double since, double now)
{
    wait_until(t, copied_, since, now);
}

}  // namespace rgpu::interpose::forecast
