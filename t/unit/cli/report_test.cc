// SPDX-License-Identifier: Apache-2.0
// A job's report: its sums, and what is advised.
#include "cli/parts/report.h"

#include <criterion/criterion.h>

#include "util/units.h"

using namespace rgpu;
using namespace rgpu::cli;

static pool::LeaseUsage lease(double held_s, double busy_s, int run = 0, int share = kWholeGpu)
{
    pool::LeaseUsage usage;
    usage.owner.job = "17";
    usage.owner.user = "ann";
    usage.owner.run = run;
    usage.held_s = held_s;
    usage.ended_at = 1;
    pool::GpuUsage gpu;
    gpu.name = "H100";
    gpu.share = share;
    gpu.busy_s = busy_s;
    gpu.launches = busy_s > 0 ? 5 : 0;
    usage.gpus.push_back(gpu);
    return usage;
}

static std::string advice(const pool::LeaseUsage &usage)
{
    std::string out;
    for (const std::string &sentence : verdict(report_of({{"gpu1", usage}})))
        out += sentence + "\n";
    return out;
}

static bool has(const std::string &text, const char *part)
{
    return text.find(part) != std::string::npos;
}

Test(report, sums_up_the_last_run)
{
    const Report report = report_of(
        {{"gpu1", lease(50, 40, 0)}, {"gpu1", lease(100, 40, 1)}, {"gpu2", lease(90, 20, 1, 50)}});
    cr_expect_eq(report.run, 1);
    cr_expect_eq(report.gpus, 2);
    cr_expect_eq(report.held_s, 100);
    cr_expect_eq(report.lease_s, 190);
    cr_expect_eq(report.gpu_s, 145, "half a GPU for 90 s is 45");
    cr_expect_eq(report.busy_s, 60);
    cr_expect_eq(report.servers.size(), 2u);
    cr_expect(report.ended);
    pool::LeaseUsage held = lease(10, 1, 1);
    held.ended_at = 0;
    cr_expect_not(report_of({{"gpu1", held}}).ended);
}

Test(report, energy_is_told_where_a_server_knows_it)
{
    pool::LeaseUsage counted = lease(100, 40);
    counted.gpus[0].energy_j = 20'500;
    const Report some = report_of({{"gpu1", counted}, {"gpu2", lease(100, 40)}});
    cr_expect(has(report_text(some), "  energy of the GPUs") && has(report_text(some), "20.5 kJ"));
    cr_expect(has(report_json(some), "\"energy_joules\": 20500.0"));
    const Report none = report_of({{"gpu2", lease(100, 40)}});
    cr_expect(!has(report_text(none), "energy"));
    cr_expect(has(report_json(none), "\"energy_joules\": null"));
    counted.gpus[0].energy_j = 612;
    cr_expect(has(report_text(report_of({{"gpu1", counted}})), "612 J"));
    counted.gpus[0].energy_j = 9e6;
    cr_expect(has(report_text(report_of({{"gpu1", counted}})), "2.50 kWh"));
}

Test(report, says_what_to_do)
{
    cr_expect(has(advice(lease(100, 95)), "good: its GPUs worked 95 %"));
    cr_expect(has(advice(lease(100, 20)), "GPU idle 80 %, a share would do"));
    cr_expect(has(advice(lease(100, 20)), "--rgpu-share=30-100"));
    cr_expect(has(advice(lease(100, 0)), "no kernel ran"));
    cr_expect(has(advice(lease(0.5, 0.1)), "too briefly"));
    cr_expect(has(advice(lease(100, 10, 0, 50)), "its share was used to 20 %"));
    pool::LeaseUsage two = lease(100, 95);
    two.gpus.push_back(two.gpus[0]);
    two.gpus[1].launches = 0;
    cr_expect(has(advice(two), "1 of its 2 GPUs ran no kernel"));
}

Test(report, tells_small_calls_from_large_copies)
{
    pool::LeaseUsage usage = lease(100, 55);
    usage.network_s = 40;
    usage.round_trips = 1;
    usage.bytes_in = 1000;
    cr_expect(has(advice(usage), "blocked 40 % of the time on the network"));
    cr_expect(has(advice(usage), "small calls that wait for an answer (1 round trip)"));
    usage.bytes_in = 40'000'000'000;
    cr_expect(has(advice(usage), "by copies (37.3 GiB)"));
    usage.network_s = 5;
    cr_expect_not(has(advice(usage), "network"));
}

Test(report, names_those_who_held_it_back)
{
    pool::LeaseUsage usage = lease(100, 50, 0, 50);
    usage.gpus[0].throttled_s = 30;
    cr_expect(has(advice(usage), "held back for 0:00:30 by its own ceiling"));
    cr_expect(has(advice(usage), "--rgpu-share=50-100"));
    usage.gpus[0].throttled_s = 0, usage.gpus[0].blocked_s = 20;
    cr_expect(has(advice(usage), "waited 0:00:20 for other tenants"));
}
