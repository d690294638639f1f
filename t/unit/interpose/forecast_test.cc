// SPDX-License-Identifier: Apache-2.0
// What a run over other links would have taken, from runs whose every time is made up.
#include "interpose/base/forecast.h"

#include <criterion/criterion.h>

#include <cmath>

using namespace rgpu;
using namespace rgpu::interpose::forecast;

namespace {

constexpr double kFloor = 10e-6;

// One connection, and a clock that the test moves.
struct Made {
    Run run;
    Line line{run};
    Thread &main = run.begin(0);
    double now = 1;

    Made() { line.set_floor(kFloor, kFloor); }

    void post(Thread &t, double work, size_t bytes = 100)
    {
        line.put(t, nullptr, work);
        line.sent(now, bytes);
        line.left(now);
        run.acted(t, now);
    }
    // A question whose answer takes the floor and so long.
    void ask(Thread &t, double takes, bool gpu = true, size_t bytes = 100, size_t back = 16)
    {
        const auto trip = std::make_shared<Trip>();
        trip->waits = gpu;
        line.put(t, trip, 0);
        line.sent(now, bytes);
        line.left(now);
        const double since = now;
        now += kFloor + takes;
        line.came(*trip, now, back, true, true);
        line.waited(t, *trip, since, now);
    }
};

// The link of the grid that is nearest.
size_t link_of(double round_trip, double rate)
{
    size_t best = 1;
    const auto distance = [&](size_t k) {
        return std::abs(std::log(kPaces[k].round_trip / round_trip)) +
               std::abs(std::log(kPaces[k].up * rate));
    };
    for (size_t k = 1; k < kLinks; k++)
        if (distance(k) < distance(best)) best = k;
    return best;
}
const size_t kFar = link_of(20e-3, 1250e6), kSlow = link_of(1e-3, 5e6);

#define expect_near(value, wanted, within) \
    do { \
        const double got_ = value, wanted_ = wanted; \
        cr_expect_lt(std::abs(got_ - wanted_), within, "%s: %g, not %g", #value, got_, wanted_); \
    } while (0)

}  // namespace

Test(forecast, each_question_costs_a_round_trip)
{
    Made m;
    for (int i = 0; i < 10; i++) m.ask(m.main, 0);
    expect_near(m.main.lag()[kFar].at, 10 * (20e-3 - kFloor), 1e-5);
    expect_near(m.main.lag()[kFar].of.trips, 10, 1e-9);
}

Test(forecast, posted_calls_cost_nothing_until_somebody_waits)
{
    Made m;
    for (int i = 0; i < 1000; i++, m.now += 1e-6) m.post(m.main, 1, 64);
    expect_near(m.main.lag()[kFar].at, 0, 1e-9);
    m.ask(m.main, 0);
    expect_near(m.main.lag()[kFar].at, 20e-3, 1e-4);
}

Test(forecast, the_way_there_is_hidden_behind_the_gpus_work_but_once)
{
    Made m;
    for (int step = 0; step < 5; step++) {
        for (int i = 0; i < 100; i++, m.now += 1e-5) m.post(m.main, 1);
        m.ask(m.main, 0.1);  // the kernels
    }
    expect_near(m.main.lag()[kFar].at, 5 * 20e-3, 1e-3);
}

Test(forecast, a_question_that_needs_no_work_hides_behind_the_work_that_goes_on)
{
    Made m;
    for (int i = 0; i < 100; i++) m.post(m.main, 1);
    m.ask(m.main, 0, false);  // its round trip is over long before the kernels are
    m.ask(m.main, 0.5);
    expect_near(m.main.lag()[kFar].at, 20e-3, 1e-3);
}

Test(forecast, bytes_take_what_the_line_gives)
{
    Made m;
    m.post(m.main, 0, 50 << 20);
    m.ask(m.main, 0);
    expect_near(m.main.lag()[kSlow].at, (50 << 20) / 5e6, 0.01);
    expect_near(m.main.lag()[kSlow].of.up, (50 << 20) + 100, 1);
    const double before = m.main.lag()[kSlow].at;
    m.ask(m.main, 0, true, 100, 10 << 20);
    expect_near(m.main.lag()[kSlow].at - before, (10 << 20) / 5e6, 0.01);
    expect_near(m.main.lag()[kSlow].of.down, (10 << 20) + 16, 1);
}

Test(forecast, kernels_and_the_next_copy_go_on_at_one_time)
{
    Made m;
    for (int i = 0; i < 10; i++) {  // 0.2 s on that line, and 0.2 s of kernels
        m.post(m.main, 0, 1000000);
        m.post(m.main, 1);
    }
    m.ask(m.main, 2.0);
    // One copy, and then ten kernels with nine copies beside them.
    expect_near(m.now + m.main.lag()[kSlow].at, 1 + 0.2 + 2.0, 0.1);
}

Test(forecast, a_long_copy_in_front_of_a_long_kernel_hides_nothing)
{
    Made m;
    for (int i = 0; i < 50; i++) m.post(m.main, 1e-3, 100000);
    m.post(m.main, 1);
    m.ask(m.main, 1.0);
    expect_near(m.main.lag()[kSlow].at, 1.0, 0.05);
}

Test(forecast, a_caller_stands_where_the_line_has_enough)
{
    Made m;
    m.post(m.main, 0, 50 << 20);
    cr_expect_gt(m.main.lag()[kSlow].at, 9.5);
    cr_expect_lt(m.main.lag()[kSlow].at, 50 * 0.21);
}

Test(forecast, what_has_come_long_ago_costs_nothing)
{
    Made m;
    const auto ahead = std::make_shared<Trip>();
    m.line.put(m.main, ahead, 0);
    m.line.sent(m.now, 100);
    m.line.left(m.now);
    m.now += 0.5;  // of the program's own
    m.line.came(*ahead, m.now, 16, false, true);
    m.line.waited(m.main, *ahead, m.now, m.now);
    expect_near(m.main.lag()[kFar].at, 0, 1e-9);
}

Test(forecast, threads_wait_side_by_side)
{
    Made m;
    m.ask(m.main, 0);
    Thread &a = m.run.begin(m.now), &b = m.run.begin(m.now);
    for (int i = 0; i < 10; i++) m.ask(a, 0), m.ask(b, 0);
    expect_near(a.lag()[kFar].at, 11 * 20e-3, 2e-3);
    expect_near(b.lag()[kFar].at, 11 * 20e-3, 2e-3);
    cr_expect(m.run.others_acted(m.main));
    m.run.woke(m.main, m.now);
    expect_near(m.main.lag()[kFar].at, 11 * 20e-3, 2e-3);
}

Test(forecast, a_thread_that_is_later_does_not_hold_up_another_one)
{
    Made m;
    m.ask(m.main, 0);
    Thread &late = m.run.begin(m.now), &early = m.run.begin(m.now);
    for (int i = 0; i < 50; i++) m.post(late, 1, 1000), m.ask(late, 0);
    m.post(late, 1, 1000);
    m.ask(early, 0);
    expect_near(late.lag()[kFar].at, 51 * 20e-3, 5e-3);
    expect_near(early.lag()[kFar].at, 2 * 20e-3, 5e-3);
}

Test(forecast, a_thread_is_as_late_as_whoever_started_it_was_then)
{
    Made m;
    m.ask(m.main, 0);
    const double then = m.now;
    m.now += 1e-3;
    m.ask(m.main, 0);
    expect_near(m.run.begin(then).lag()[kFar].at, 20e-3, 1e-3);
    expect_near(m.run.begin(m.now).lag()[kFar].at, 2 * 20e-3, 1e-3);
}

Test(forecast, a_gpu_of_this_machine_is_faster_than_a_slow_link)
{
    Made m;
    m.line.set_floor(10e-3, 10e-3);
    m.post(m.main, 1);
    m.ask(m.main, 10e-3);
    cr_expect_lt(m.main.lag()[0].at, -9e-3);
}

Test(forecast, the_links_of_the_grid_bound_every_other_one)
{
    Made m;
    for (int i = 0; i < 20; i++) {
        m.post(m.main, 1, 300000);
        m.ask(m.main, 2e-3);
    }
    std::vector<LinkTime> all;
    for (const Stamp &s : m.main.lag()) all.push_back(s.of);
    for (size_t k = 0; k < kLinks; k++)
        expect_near(longest(all, kPaces[k]).over(kPaces[k]), m.main.lag()[k].at, 1e-6);
    const LinkPace between{3e-3, 1 / 60e6, 1 / 60e6};
    expect_near(longest(all, between).over(between), 20 * (3e-3 + 300000 / 60e6), 1e-2);
}
