// SPDX-License-Identifier: Apache-2.0
// What this program would take over other links: a run over a whole grid of them at once, beside
// the real one.
//
// Each thread has a lag over each link: how much later than in fact it would be there. A byte that
// leaves goes over each link's line as soon as that is free, and what the server does begins as
// much later as its calls come. A thread that waits for an answer goes on when that would come. All
// of this is maxima of sums, so a moment knows which round trips and bytes it is made of
// (util/link_time.h), and what is found for a few links bounds every other one.
//
// What the model knows of the server is when it answered. The work behind an answer is spread over
// the calls that put work on the GPU since the last one that waited for the GPU; no call can have
// more than the time since it was sent.
//
// No clock, no lock, no thread: the times are told, in seconds since some moment. forecasting.h is
// the real run's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "util/link_time.h"

namespace rgpu::interpose::forecast {

// Those links: the first is a GPU in this machine.
inline constexpr size_t kLinks = 25;
extern const std::array<LinkPace, kLinks> kPaces;

// A moment over one link, or the time between two.
struct Stamp {
    double at = 0;  // `of` over that link
    LinkTime of;
};
using Stamps = std::array<Stamp, kLinks>;

// One thread of the program; or what a server tells unasked, as if it were one.
class Thread {
public:
    const Stamps &lag() const { return lag_; }

private:
    friend class Run;
    friend class Line;
    struct Earlier {
        double until = 0;  // it had this lag
        Stamps lag;
    };
    static constexpr size_t kEarlier = 4;

    void changes(double now);
    const Stamps &lag_at(double when) const;

    Stamps lag_;
    std::array<Earlier, kEarlier> earlier_;  // a ring
    size_t next_ = 0;
    double acted_ = 0;
    bool used_ = false;
};

// All threads of the process.
class Run {
public:
    static constexpr size_t kMostThreads = 64;  // from then on some are taken for one

    // A thread begins that somebody started then, and is as late as who last did anything.
    Thread &begin(double when);
    void end(Thread &t) { t.used_ = false; }
    // It slept and woke up then: behind what woke it, which may be what any other has done since it
    // acted itself.
    void woke(Thread &t, double when);
    void acted(Thread &t, double now) { t.acted_ = now; }
    // Another thread has acted since it did.
    bool others_acted(const Thread &t) const;
    // It made so many round trips that no line knows of.
    void trips(Thread &t, double count, double now);

private:
    std::deque<Thread> threads_;  // which stay where they are
};

// One direction of a connection: over each link, from when on it carries bytes without a rest, and
// until when. What a thread sends that is less late than others may go in front of theirs.
class Wire {
public:
    // So many bytes come to it then (of = what they add); returns when the last one has passed.
    Stamp carry(size_t link, Stamp then, const LinkTime &bytes);
    const Stamp &free(size_t link) const { return free_[link]; }

private:
    std::array<double, kLinks> from_{};
    Stamps free_;
};

// A question, from when it is put until its answer is taken.
struct Trip {
    bool waits = false;  // for the GPU, and not only for the server
    bool left = false, begun = false;
    uint64_t point = 0;  // of the line, that it left with
    double asked = 0, floor = 0, work = 0, done = 0, first = 0;
    Stamps there;  // when it has come to the server; then, when the server has the answer
    Stamps back;   // when the answer's last byte so far has come
};

// One connection.
class Line {
public:
    explicit Line(Run &run) : run_(run), server_(run.begin(0)) {}

    // What a question that needs no work takes on the real link: behind another one, and after a
    // rest.
    void set_floor(double seconds, double cold) { floor_ = seconds, cold_floor_ = cold; }

    // A call is put into the buffer that leaves next, by this thread; with so much work for the
    // GPU. `trip`: it is a question; else null.
    void put(Thread &t, std::shared_ptr<Trip> trip, double work);
    // So many bytes leave. The thread stands while too many would wait for the line.
    void sent(double now, size_t bytes);
    // All that was put has left.
    void left(double now);

    // A frame of the answer has come: read then, with so many bytes; `waited`: it was not there
    // before. `last`: there is no other.
    void came(Trip &trip, double now, size_t bytes, bool waited, bool last);
    // The thread has waited for the answer since then.
    void waited(Thread &t, const Trip &trip, double since, double now);

    // Something has come that nobody asked for.
    void pushed(double now);
    // A copy that nobody waits for is over; and a thread has waited for all of those.
    void copied(const Trip &trip);
    void waited_for_copies(Thread &t, double since, double now);

private:
    // What left together.
    struct Point {
        uint64_t number = 0;
        double at = 0, before = 0;  // the work of all before it
        Stamps there;
    };
    static constexpr size_t kMostPoints = 16;

    void add_point(double now);
    void finish(Stamps &there, double work, double residual, double done, uint64_t last) const;
    void wait_until(Thread &t, const Stamps &then, double since, double now);

    Run &run_;
    Thread &server_;
    double floor_ = 0, cold_floor_ = 0;
    double left_at_ = 0;
    Wire up_, down_;
    Stamps sent_;               // when the last byte that left has passed
    Stamps copied_;             // when the last copy that nobody waits for is over
    Thread *putter_ = nullptr;  // of what leaves next
    std::vector<std::shared_ptr<Trip>> leaving_;  // questions in it
    uint64_t number_ = 0;                         // of the last point
    double work_ = 0, left_work_ = 0;             // put, and left, ever
    double done_ = 0;                             // until then all work is over
    std::vector<Point> points_;
};

}  // namespace rgpu::interpose::forecast
