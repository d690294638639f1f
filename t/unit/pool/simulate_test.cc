// SPDX-License-Identifier: Apache-2.0
#include "pool/ledger/simulate.h"

#include <cmath>

#include <criterion/criterion.h>

using namespace rgpu;
using namespace rgpu::pool;

static Trace trace(const char *text)
{
    auto parsed = parse_trace(text);
    cr_assert(parsed, "%s", parsed ? "" : parsed.error().text.c_str());
    return std::move(*parsed);
}

static bool near(double a, double b) { return std::fabs(a - b) < 1e-9; }

// Two GPUs and four: a client of two, then one of four.
static const char *kNoPins =
    "servers 1 4 8G\nservers 1 2 8G\nrequest 0 2 100 0 100\nrequest 10 4 100 0 100\n";

Test(simulate, aint_no_pins)
{
    Simulated best = simulate(trace(kNoPins), Policy::best_fit),
              worst = simulate(trace(kNoPins), Policy::worst_fit),
              first = simulate(trace(kNoPins), Policy::first_fit);
    cr_assert_eq(best.waited, size_t{0});
    for (const Simulated &other : {worst, first}) {
        cr_assert_eq(other.waited, size_t{1});
        cr_assert(near(other.wait_max, 90), "%g", other.wait_max);
        cr_assert(near(other.wait_mean, 45));
        cr_assert(near(other.wait_large, 90));
    }
    cr_assert_eq(best.gpus, 6);
    cr_assert(near(best.utilisation, 2.0 / 6), "%g", best.utilisation);
}

Test(simulate, the_longest_waiting_is_served_first_and_whoever_fits)
{
    Simulated result = simulate(trace("servers 1 2 8G\n"
                                      "request 0 2 100 0 10\n"
                                      "request 1 2 100 0 10\n"  // 10 to 20
                                      "request 2 1 100 0 10\n"  // 20 to 30
                                      "request 40 1 100 0 1\n"),
                                Policy::best_fit);
    cr_assert_eq(result.requests, size_t{4});
    cr_assert(near(result.wait_max, 18), "%g", result.wait_max);
    cr_assert(near(result.wait_mean, (0 + 9 + 18 + 0) / 4.0), "%g", result.wait_mean);
    cr_assert(near(result.utilisation, (20 + 20 + 10) / 80.0), "%g", result.utilisation);
}

Test(simulate, what_no_server_could_ever_give_is_counted)
{
    Simulated result = simulate(
        trace("servers 3 2 8G\nrequest 0 3 100 0 10\nrequest 1 1 50 9G 10\nrequest 2 1 50 0 10\n"),
        Policy::best_fit);
    cr_assert_eq(result.never, size_t{2});
    cr_assert_eq(result.requests, size_t{1});
}

Test(simulate, broken_and_scattered)
{
    // Half a GPU on each of two servers under first fit would be one server's; worst fit breaks
    // both.
    const char *halves = "servers 2 1 8G\nrequest 0 1 50 0 100\nrequest 0 1 50 0 100\nrequest 0 1 "
                         "100 0 10\nrequest 50 1 1 0 1\n";
    Simulated worst = simulate(trace(halves), Policy::worst_fit),
              best = simulate(trace(halves), Policy::best_fit);
    cr_assert(near(worst.broken, 1), "%g", worst.broken);
    cr_assert(near(best.broken, 0), "%g", best.broken);
    cr_assert(near(worst.wait_max, 100));
    cr_assert_eq(best.waited, size_t{0});
    // Two whole GPUs are free, on two servers.
    Simulated pair = simulate(trace("servers 2 2 8G\nrequest 0 1 100 0 50\nrequest 0 1 100 0 "
                                    "50\nrequest 1 2 100 0 1\nrequest 51 1 100 0 1\n"),
                              Policy::worst_fit);
    cr_assert(near(pair.scattered, 1), "%g", pair.scattered);
    cr_assert(near(pair.wait_max, 49), "%g", pair.wait_max);
}

Test(simulate, a_wrong_trace_is_told_with_its_line)
{
    auto text = [](const char *wrong) {
        auto parsed = parse_trace(wrong);
        return parsed ? std::string() : parsed.error().text;
    };
    cr_assert(text("servers 2 2\n").starts_with("line 1: write servers COUNT"));
    cr_assert(text("servers 2 2 8G\n\nrequest 0 1\n").starts_with("line 3: write request"));
    cr_assert(text("servers 2 2 8G\nrequest 0 1 200 0 5\n").starts_with("line 2:"));
    cr_assert(text("servers 2 2 8G\nrequest 0 1 100 much 5\n").starts_with("line 2:"));
    cr_assert(text("servers 2 2 8G\nrequest 0 0 100 0 5\n").starts_with("line 2:"));
    cr_assert(text("server 2 2 8G\n").starts_with("line 1: a line begins with"));
    cr_assert_eq(text("servers 2 2 8G\n"), "it has no request");
    cr_assert_eq(text("request 0 1 100 0 5\n"), "it has no servers");
    cr_assert(text("servers 10000 8 80G\nservers 1 8 80G\nrequest 0 1 100 0 5\n")
                  .starts_with("line 2: these are more than 10000"));
    cr_assert(
        text("servers 1000 1024 80G\nrequest 0 1 100 0 5\n").starts_with("line 1: these are more"));
    cr_assert(text("servers 2000000000 8 80G\nservers 2000000000 8 80G\n")
                  .starts_with("line 1: these are more"));
}

Test(simulate, requests_may_have_gpus_of_several_servers)
{
    Trace three = trace("servers 2 2 8G\n"
                        "request 0 3 100 0 10\n"
                        "request 1 2 100 0 10\n"    // 10 to 20
                        "request 2 1 100 0 5\n"     // at once: it is left over
                        "request 20 5 100 0 1\n");  // never
    Simulated alone = simulate(three, Policy::best_fit),
              spans = simulate(three, Policy::best_fit, true);
    cr_assert_eq(alone.never, size_t{2});
    cr_assert_eq(alone.spanned, size_t{0});
    cr_assert_eq(spans.never, size_t{1});
    cr_assert_eq(spans.spanned, size_t{1});
    cr_assert_eq(spans.waited, size_t{1});
    cr_assert(near(spans.wait_max, 9), "%g", spans.wait_max);
    cr_assert(near(spans.utilisation, (3 * 10 + 2 * 10 + 5) / 80.0), "%g", spans.utilisation);
}
