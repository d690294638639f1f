// SPDX-License-Identifier: Apache-2.0
// What is read of a program's record, and what follows for a link.
#include "cli/parts/prediction.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmath>
#include <fstream>

using namespace rgpu;
using namespace rgpu::cli;

namespace {

std::string recorded(const char *forecast)
{
    return std::string(R"({"pid": 7, "calls": 100, "round_trips": 12, "bytes_sent": 5000,
        "bytes_received": 600, "transport": "tcp", "by_name": {
        "cuMemcpyDtoH_v2": {"calls": 10, "round_trips": 9}, "cuInit": {"round_trips": 3}})") +
           forecast + "}";
}

RecordedProcess process(double began, double seconds, double trips)
{
    RecordedProcess p;
    p.began = began, p.seconds = seconds;
    p.later = {{0, trips, 0, 0}};
    return p;
}

double over(std::vector<RecordedProcess> processes, double round_trip)
{
    return predict(std::move(processes), 0, {{"far", {round_trip, 1e-9, 1e-9}}}).links[1].seconds;
}

bool near(double a, double b) { return std::abs(a - b) < 1e-3 + 1e-6 * std::abs(b); }

}  // namespace

Test(prediction, a_record_is_read)
{
    auto p = decode_recorded(recorded(R"(, "forecast": {"began": 5, "seconds": 2,
        "measuring_s": 0.5, "later": [{"seconds": -1, "round_trips": 3, "up": 4, "down": 5}]})"));
    cr_assert(p.has_value(), "%s", p.error().text.c_str());
    cr_expect_eq(p->round_trips, 12);
    cr_expect_eq(p->waits_most, "cuMemcpyDtoH_v2");
    cr_expect_eq(p->waits, 9);
    cr_expect_eq(p->later.at(0).fixed, -1);
    cr_expect_eq(p->later.at(0).down, 5);
    cr_expect_eq(p->measuring, 0.5);
}

Test(prediction, a_record_that_is_none_is_refused)
{
    for (const char *forecast :
         {"", ", \"forecast\": 3", ", \"forecast\": {}", ", \"forecast\": {\"later\": []}",
          ", \"forecast\": {\"later\": [3]}", ", \"forecast\": {\"later\": [{\"seconds\": \"x\"}]}",
          ", \"forecast\": {\"seconds\": -1, \"later\": [{}]}",
          ", \"forecast\": {\"seconds\": 1e300, \"later\": [{}]}"})
        cr_expect_not(decode_recorded(recorded(forecast)).has_value(), "%s", forecast);
    cr_expect_not(decode_recorded("").has_value());
    cr_expect_not(decode_recorded("[]").has_value());
    cr_expect_not(decode_recorded("{}").has_value());
}

Test(prediction, processes_one_after_the_other_are_late_one_after_the_other)
{
    cr_expect(near(over({process(10, 2, 100)}, 0.01), 3));
    cr_expect(near(over({process(10, 2, 100), process(13, 2, 50)}, 0.01), 5 + 1.5));
    // At one time: the one that is later.
    cr_expect(near(over({process(10, 2, 100), process(11, 2, 50)}, 0.01), 3 + 1));
}

Test(prediction, seconds_are_told_apart)
{
    RecordedProcess p = process(0, 1, 0);
    p.later = {{0, 100, 0, 0}, {-0.5, 0, 1e6, 2e6}};
    const Prediction slow = predict({p}, 4, {{"slow", {1e-3, 1e-6, 1e-6}}});
    cr_expect_eq(slow.measured, 4);
    cr_expect(near(slow.links[1].seconds, 4 - 0.5 + 3));
    cr_expect(near(slow.links[1].for_bytes, 3));
    cr_expect(near(slow.links[1].for_trips, 0));
    cr_expect(near(slow.links[0].factor, 1));
    cr_expect(near(predict({p}, 4, {{"far", {1, 1e-9, 1e-9}}}).links[1].for_trips, 100));
}

Test(prediction, advice_names_the_call_that_waits_most)
{
    RecordedProcess p = process(0, 1, 100);
    p.waits = 90, p.waits_most = "cuMemcpyDtoH_v2", p.round_trips = 100;
    const auto far = predict({p}, 0, {{"far", {0.05, 1e-9, 1e-9}}}).advice;
    cr_assert_eq(far.size(), 1);
    cr_expect(far[0].find("90 of 100 round trips are cuMemcpyDtoH_v2") != std::string::npos, "%s",
              far[0].c_str());
    const auto near_by = predict({p}, 0, {{"near", {1e-5, 1e-9, 1e-9}}}).advice;
    cr_assert_eq(near_by.size(), 1);
    cr_expect_eq(near_by[0], "no link above costs it more than a tenth");
}

Test(prediction, links_are_written_as_people_do)
{
    auto link = parse_link("home=20ms,50M");
    cr_assert(link.has_value());
    cr_expect_eq(link->name, "home");
    cr_expect(near(link->pace.round_trip, 0.02));
    cr_expect(near(1 / link->pace.up, 50e6 / 8));
    link = parse_link("100us,10G,2.5Gbit/s");
    cr_assert(link.has_value());
    cr_expect_eq(link->name, "100us,10G,2.5Gbit/s");
    cr_expect(near(link->pace.round_trip * 1e6, 100));
    cr_expect(near(1 / link->pace.up, 10e9 / 8));
    cr_expect(near(1 / link->pace.down, 2.5e9 / 8));
    for (const char *wrong : {"", "5ms", "5,1G", "5ms,", "5ms,x", "-5ms,1G", "5ms,0M", "5ms,nanM",
                              "5ms,1G,", "5ms,1G,1G,1G", "a=", "=,"})
        cr_expect_not(parse_link(wrong).has_value(), "%s", wrong);
}

Test(prediction, a_link_may_be_what_rgpu_bench_has_measured)
{
    char path[] = "/tmp/prediction-test.XXXXXX";
    const int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    close(fd);
    // 2 ms, and 10 ns a byte to the GPU; 20 ns from it.
    std::ofstream(path) << R"({"call": {"p50_us": 2000.5}, "bandwidth": [
        {"bytes": 100000, "to_gpu_GBps": 0.0833333333, "from_gpu_GBps": 0.025},
        {"bytes": 2000000, "to_gpu_GBps": 0.0909090909, "from_gpu_GBps": 0.0476190476}]})";
    auto link = parse_link("far=" + std::string(path));
    cr_assert(link.has_value(), "%s", link.error().text.c_str());
    cr_expect_eq(link->name, "far");
    cr_expect(near(link->pace.round_trip * 1e6, 2000.5));
    cr_expect(std::abs(link->pace.up * 1e9 - 10) < 0.01);
    cr_expect(std::abs(link->pace.down * 1e9 - 20) < 0.01);
    for (const char *wrong : {"{}", "x", R"({"call": {"p50_us": 1}, "bandwidth": []})",
                              R"({"call": 1, "bandwidth": [{"bytes": 1, "to_gpu_GBps": 1,
                                  "from_gpu_GBps": 1}]})",
                              R"({"call": {"p50_us": 1}, "bandwidth": [{"bytes": 1,
                                  "to_gpu_GBps": 0, "from_gpu_GBps": 1}]})"}) {
        std::ofstream(path) << wrong;
        cr_expect_not(parse_link(path).has_value(), "%s", wrong);
    }
    unlink(path);
}
