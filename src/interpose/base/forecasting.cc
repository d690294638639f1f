// SPDX-License-Identifier: Apache-2.0
// Who wakes a thread is not known: a thread that has slept since it was here last goes on behind
// whatever others have done meanwhile.
#include "interpose/base/forecasting.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#include "interpose/base/forecast.h"
#include "util/fd.h"

namespace rgpu::interpose {

namespace {

using namespace forecast;

constexpr double kShortest = 20e-6;  // seconds: no other thread wakes one faster
constexpr double kLongest = 1e-3;    // before that, what it did since it woke up is not looked at
constexpr double kSleep = 200e-6;    // less than that is a lock that others had
constexpr double kCall = 1e-3;       // the work of a call that puts none on the GPU

double seconds(const timespec &t)
{
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double clock_time(clockid_t id)
{
    timespec t{};
    clock_gettime(id, &t);
    return seconds(t);
}

struct Process {
    const double begin = clock_time(CLOCK_MONOTONIC);
    std::mutex mutex;
    Run run;
    double spent = 0;
    size_t connections = 0, threads = 0;
    double floor = 0;
    std::atomic<const Thread *> last{nullptr};
};

// Made by the first connection, and never deleted: programs make calls while they end.
constinit std::atomic<Process *> made{nullptr};

Process &process()
{
    if (Process *const p = made.load(std::memory_order_acquire)) return *p;
    auto mine = std::make_unique<Process>();
    Process *other = nullptr;
    return made.compare_exchange_strong(other, mine.get()) ? *mine.release() : *other;
}

// The calling thread.
struct Mine {
    Thread *thread = nullptr;
    long sleeps = 0;
    double busy = 0, acted = 0;

    Mine() = default;
    Mine(const Mine &) = delete;
    Mine &operator=(const Mine &) = delete;
    // The first thread makes calls behind its thread_local destructors: while the process ends.
    ~Mine()
    {
        if (!thread || gettid() == getpid()) return;
        const std::lock_guard lock(process().mutex);
        process().run.end(*thread);
        thread = nullptr;
    }
    // Whether it has slept since the last time.
    bool slept()
    {
        rusage used{};
        getrusage(RUSAGE_THREAD, &used);
        const bool more = used.ru_nvcsw != sleeps;
        sleeps = used.ru_nvcsw;
        return more;
    }
};
thread_local Mine mine;

// With the lock held. `slept`: since it was here last, but for waiting for locks of ours. `at_end`:
// what woke it has just happened.
Thread &come(Process &p, double now, bool slept, bool at_end = false)
{
    const double busy = clock_time(CLOCK_THREAD_CPUTIME_ID), worked = busy - mine.busy;
    if (!mine.thread) {
        mine.thread = &p.run.begin(at_end ? now : now - busy);
        p.threads++;
    } else if (slept && p.run.others_acted(*mine.thread) &&
               (at_end || now - mine.acted - worked > kSleep)) {
        p.run.woke(*mine.thread, at_end ? now : now - std::min(worked, kLongest));
    }
    mine.busy = busy, mine.acted = now;
    p.run.acted(*mine.thread, now);
    p.last.store(mine.thread, std::memory_order_relaxed);
    return *mine.thread;
}

double work_of(calls::CallId id)
{
    if (static_cast<size_t>(id) >= calls::kCallCount) return 0;
    const calls::Facts &facts = calls::info(id).facts;
    return facts.work && facts.body != calls::Body::copy ? 1 : kCall;
}

bool waits_for_gpu(calls::CallId id)
{
    return static_cast<size_t>(id) < calls::kCallCount && calls::info(id).mode == calls::Mode::wait;
}

// Seconds since the process began; nothing where /proc does not say.
double age()
{
    char text[1024] = "";
    const Fd fd(open("/proc/self/stat", O_RDONLY | O_CLOEXEC));
    const ssize_t n = fd ? read(fd.get(), text, sizeof text - 1) : 0;
    if (n <= 0) return 0;
    const char *behind_name = strrchr(text, ')');
    unsigned long long ticks = 0;
    if (!behind_name ||
        sscanf(behind_name + 1,
               " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
               &ticks) != 1)
        return 0;
    return clock_time(CLOCK_BOOTTIME) -
           static_cast<double>(ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

double Forecaster::now() { return clock_time(CLOCK_MONOTONIC) - process().begin; }

Forecaster::Forecaster() : line_(std::make_unique<Line>(process().run)) {}
Forecaster::~Forecaster() = default;

void Forecaster::learn_floor(double warm, double cold)
{
    Process &p = process();
    const std::lock_guard lock(p.mutex);
    line_->set_floor(warm, cold);
    p.floor = std::max(p.floor, warm);
}

void Forecaster::connected(double trips)
{
    Process &p = process();
    const std::lock_guard lock(p.mutex);
    p.connections++;
    const double t = now();
    p.run.trips(come(p, t, true), trips, t);
}

void Forecaster::spent(double seconds)
{
    const std::lock_guard lock(process().mutex);
    process().spent += seconds;
}

void Forecaster::comes()
{
    Process &p = process();
    const double t = now();
    if (mine.thread &&
        (p.last.load(std::memory_order_relaxed) == mine.thread || t - mine.acted < kShortest)) {
        mine.acted = t;
        return;
    }
    const bool slept = mine.slept();
    const std::lock_guard lock(p.mutex);
    come(p, t, slept);
}

std::shared_ptr<Trip> Forecaster::ask(calls::CallId id, bool copy)
{
    asked_ = std::make_shared<Trip>();
    asked_->waits = copy || waits_for_gpu(id);
    return asked_;
}

void Forecaster::put(calls::CallId id) noexcept
{
    Process &p = process();
    const std::lock_guard lock(p.mutex);
    if (!mine.thread) come(p, now(), true);
    p.run.acted(*mine.thread, mine.acted);
    if (p.threads > 1) mine.slept();  // it waited for locks of ours, which order nothing
    if (p.last.load(std::memory_order_relaxed) != mine.thread)
        p.last.store(mine.thread, std::memory_order_relaxed);
    try {
        line_->put(*mine.thread, std::exchange(asked_, nullptr), work_of(id));
    } catch (const std::bad_alloc &) {}
}

void Forecaster::sent(size_t bytes)
{
    const std::lock_guard lock(process().mutex);
    line_->sent(now(), bytes);
}

void Forecaster::left()
{
    const std::lock_guard lock(process().mutex);
    line_->left(now());
}

void Forecaster::heard(bool waited) { heard_at_ = now(), heard_waited_ = waited; }

void Forecaster::came(Trip &trip, size_t bytes, bool last)
{
    const std::lock_guard lock(process().mutex);
    line_->came(trip, frame_at_, bytes, frame_waited_, last);
}

void Forecaster::pushed()
{
    const std::lock_guard lock(process().mutex);
    line_->pushed(now());
}

void Forecaster::waited(const Trip &trip, double since)
{
    Process &p = process();
    const std::lock_guard lock(p.mutex);
    if (!mine.thread) come(p, since, true);
    const double t = now();
    line_->waited(*mine.thread, trip, since, t);
    p.last.store(mine.thread, std::memory_order_relaxed);
    mine.acted = t;
    mine.busy = clock_time(CLOCK_THREAD_CPUTIME_ID);
    mine.slept();
}

void Forecaster::copied(const Trip &trip)
{
    const std::lock_guard lock(process().mutex);
    line_->copied(trip);
}

void Forecaster::waited_for_copies(double since)
{
    Process &p = process();
    const std::lock_guard lock(p.mutex);
    if (!mine.thread) come(p, since, true);
    const double t = now();
    line_->waited_for_copies(*mine.thread, since, t);
    mine.acted = t;
    mine.slept();
}

std::string forecast_json()
{
    if (!made.load()) return {};
    Process &p = process();
    const std::lock_guard lock(p.mutex);
    if (!p.connections) return {};
    const double t = Forecaster::now();
    const Thread &me = come(p, t, mine.slept(), true);
    const double old = std::max(age(), t), wall = clock_time(CLOCK_REALTIME);
    std::string out;
    char line[256];
    snprintf(line, sizeof line,
             "{\"began\": %.6f, \"seconds\": %.6f, \"measuring_s\": %.6f, \"floor_us\": %.3f, "
             "\"later\": [",
             wall - old, old, p.spent, p.floor * 1e6);
    out += line;
    const char *comma = "";
    for (const Stamp &s : me.lag()) {
        snprintf(line, sizeof line,
                 "%s\n  {\"seconds\": %.9f, \"round_trips\": %.1f, \"up\": %.0f, \"down\": %.0f}",
                 comma, s.of.fixed, s.of.trips, s.of.up, s.of.down);
        out += line;
        comma = ",";
    }
    return out + "\n]}";
}

}  // namespace rgpu::interpose
