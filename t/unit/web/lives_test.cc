// SPDX-License-Identifier: Apache-2.0
#include "web/data/lives.h"

#include <criterion/criterion.h>
#include <nlohmann/json.hpp>

using namespace rgpu;
using namespace rgpu::web;
using nlohmann::json;

namespace {

const Viewer kAll{"", 0, true};

// A lease of job 17 on two GPUs, which has been busy for so long on each.
pool::LeaseUsage lease(double busy_s, double network_s = 0, uint64_t bytes = 0)
{
    pool::LeaseUsage out;
    out.lease = std::string(32, 'a');
    out.owner.uid = 1001;
    out.owner.user = "alice";
    out.owner.job = "17";
    out.granted_at = 1000;
    out.network_s = network_s;
    out.bytes_in = bytes;
    for (int i = 0; i < 2; ++i) {
        pool::GpuUsage gpu;
        gpu.busy_s = busy_s;
        gpu.memory = 1 << 20;
        out.gpus.push_back(gpu);
    }
    return out;
}

json told(const Lives &lives, const std::string &job = "17")
{
    const std::string text = lives.json(job, kAll);
    return text.empty() ? json() : json::parse(text);
}

}  // namespace

Test(lives, a_sample_is_what_the_counters_grew_by)
{
    Lives lives;
    lives.look(10'000, {lease(100, 7, 5000)}, {});
    cr_assert(told(lives)["samples"].empty(), "one look says nothing of a time");
    lives.look(12'000, {lease(101, 7.5, 9000)}, {{std::string(32, 'a'), 4096}});
    const json life = told(lives);
    cr_assert_eq(life["samples"].dump(), "[[12000,50.0,0.0,0.0,25.0,2000.0,0.0,4096.0]]", "%s",
                 life["samples"].dump().c_str());
    cr_assert_eq(life["gpus"], 2);
    cr_assert_eq(life["memory"], 2 << 20);
    cr_assert_eq(life["since"], 1000);
    cr_assert(!life.contains("ended"));
}

Test(lives, a_long_life_stays_whole_and_small)
{
    Lives lives;
    constexpr int kSeconds = 100'000;
    // The first half is busy, the second is not.
    for (int i = 0; i <= kSeconds; i += 2)
        lives.look(1000 * (i + 1), {lease(std::min(i, kSeconds / 2))}, {});
    const json samples = told(lives)["samples"];
    cr_assert_leq(samples.size(), Lives::kSamples);
    cr_assert_geq(samples.size(), Lives::kSamples / 4);
    cr_assert_leq(samples.front()[0], 1000 * kSeconds / 50);
    cr_assert_geq(samples.back()[0], 1000LL * kSeconds / 50 * 49);
    size_t busy = 0;
    for (const json &sample : samples) busy += sample[1] > 50;
    cr_assert_geq(busy, samples.size() * 4 / 10);
    cr_assert_leq(busy, samples.size() * 6 / 10);
}

Test(lives, an_end_is_kept_and_a_number_may_come_again)
{
    Lives lives;
    lives.look(1000, {lease(1)}, {});
    lives.look(3000, {lease(2)}, {});
    lives.look(5000, {}, {});
    cr_assert_eq(told(lives)["ended"], 5);
    cr_assert_eq(told(lives)["samples"].size(), 1);
    pool::LeaseUsage other = lease(0);
    other.owner.uid = 1002;
    lives.look(7000, {other}, {});
    cr_assert(!told(lives).contains("ended"));
    cr_assert(told(lives)["samples"].empty(), "another user's job of that number starts anew");
}

Test(lives, a_user_is_told_of_his_own)
{
    Lives lives;
    lives.look(1000, {lease(1)}, {});
    lives.look(3000, {lease(2)}, {});
    const Viewer alice{"alice", 1001, false}, bob{"bob", 1002, false}, admin{"root", 0, true};
    cr_assert_neq(lives.json("17", alice), "");
    cr_assert_neq(lives.json("17", admin), "");
    cr_assert_eq(lives.json("17", bob), "");
    cr_assert_eq(lives.last_json(bob), "{}");
    cr_assert(json::parse(lives.last_json(alice)).contains("17"));
    cr_assert_eq(lives.json("18", admin), "");
}

Test(lives, no_server_gives_a_job_to_another_user)
{
    Lives lives;
    pool::LeaseUsage foreign = lease(0);
    foreign.lease = std::string(32, 'b');
    foreign.owner.uid = 1002;
    lives.look(1000, {foreign, lease(1)}, {});
    lives.look(3000, {foreign, lease(2)}, {});
    const Viewer alice{"alice", 1001, false}, bob{"bob", 1002, false};
    cr_assert_eq(json::parse(lives.json("17", alice))["samples"][0][1], 50.0);
    cr_assert_eq(json::parse(lives.json("17", bob))["samples"][0][1], 0.0);
    cr_assert_eq(json::parse(lives.last_json(bob))["17"][1], 0.0);
}

Test(lives, a_lease_that_begins_anew_is_no_negative_use)
{
    Lives lives;
    lives.look(1000, {lease(100)}, {});
    lives.look(3000, {lease(1)}, {});
    cr_assert_eq(told(lives)["samples"][0][1], 0.0);
}
