// SPDX-License-Identifier: Apache-2.0
// What a job used, on its way into Slurm's record and out of it.
#include "slurm/jobs/usage.h"

#include <algorithm>

#include <criterion/criterion.h>

using namespace rgpu;
using namespace rgpu::slurm;

namespace {

pool::LeaseUsage lease(double held, std::vector<pool::GpuUsage> gpus)
{
    pool::LeaseUsage out;
    out.held_s = held;
    out.bytes_in = 1000;
    out.bytes_out = 10;
    out.gpus = std::move(gpus);
    return out;
}

pool::GpuUsage gpu(const char *name, int share, double busy, uint64_t memory)
{
    pool::GpuUsage out;
    out.name = name;
    out.share = share;
    out.busy_s = busy;
    out.blocked_s = 0.5;
    out.throttled_s = 0.25;
    out.memory_peak = memory;
    out.launches = 7;
    return out;
}

// As sacctmgr 22.05 does with a value (strip_quotes).
std::string through_sacctmgr(std::string text)
{
    for (char &c : text) c = c == '"' || c == '\'' ? '`' : static_cast<char>(tolower(c));
    return text;
}

}  // namespace

Test(usage, adds_up_by_type_over_leases_and_servers)
{
    JobUsage used;
    cr_expect(used.empty());
    add(used, "gpu1",
        {lease(10, {gpu("H100", 100, 4, 500), gpu("A100", 100, 1, 100)}),
         lease(20, {gpu("H100", 50, 2, 900)})});
    add(used, "gpu2", {lease(1, {gpu("H100", 100, 1, 1)})});
    add(used, "gpu3", {});
    cr_assert_eq(used.gpus.size(), 2u);
    const TypeUsage &h100 = used.gpus[0];
    cr_expect_eq(h100.name, "H100");
    cr_expect_float_eq(h100.gpu_seconds, 10 + 20 * 0.5 + 1, 1e-9);
    cr_expect_float_eq(h100.busy_seconds, 7, 1e-9);
    cr_expect_float_eq(h100.blocked_seconds, 1.5, 1e-9);
    cr_expect_float_eq(h100.throttled_seconds, 0.75, 1e-9);
    cr_expect_eq(h100.memory_peak, 900u, "the most of one");
    cr_expect_eq(h100.launches, 21u);
    cr_expect_eq(h100.bytes_in, 3000u);
    cr_expect_eq(used.gpus[1].bytes_in, 0u, "a lease's bytes count once");
    cr_expect_eq(used.servers.size(), 2u, "gpu3 had none of its leases");
}

Test(usage, comes_back_as_it_went)
{
    JobUsage used;
    add(used, "gpu1", {lease(10.5, {gpu("an \"odd\" 'name'\n", 30, 4.25, 500)})});
    used.silent = {"gpu9"};
    for (const char *before : {"", "seen by me", "{`mine`: 3}"}) {
        std::string comment = to_comment(used, before);
        cr_expect(comment.starts_with(before));
        auto back = from_comment(through_sacctmgr(comment));
        cr_assert(back.has_value(), "%s", comment.c_str());
        cr_assert_eq(back->gpus.size(), 1u);
        cr_expect_eq(back->gpus[0].name, "an _odd_ _name__");
        cr_expect_float_eq(back->gpus[0].gpu_seconds, 3.15, 1e-3);
        cr_expect_float_eq(back->gpus[0].busy_seconds, 4.25, 1e-3);
        cr_expect_eq(back->gpus[0].memory_peak, 500u);
        cr_expect_eq(back->gpus[0].bytes_in, 1000u);
        cr_expect_eq(back->gpus[0].bytes_out, 10u);
        cr_expect_eq(back->silent.size(), 1u);
        cr_expect_eq(back->servers, std::vector<std::string>{"gpu1"});
    }
}

Test(usage, is_one_type_whatever_slurm_makes_of_its_letters)
{
    JobUsage used;
    add(used, "gpu1", {lease(1, {gpu("NVIDIA H100", 100, 1, 1)})});
    const std::string comment = to_comment(used);
    for (const std::string &kept : {comment, through_sacctmgr(comment)}) {
        auto back = from_comment(kept);
        cr_assert(back && back->gpus.size() == 1);
        cr_expect(back->gpus[0].name == "nvidia h100", "%s", back->gpus[0].name.c_str());
    }
}

Test(usage, reads_nothing_out_of_others_comments)
{
    JobUsage used;
    add(used, "gpu1", {lease(1, {gpu("H100", 100, 1, 1)})});
    const std::string good = to_comment(used);
    for (size_t n = 0; n < good.size(); ++n)
        cr_expect_not(from_comment(good.substr(0, n)).has_value(), "cut off at %zu", n);
    for (const char *text : {"", "a comment", "{}", "{\"rgpu\":1}", "{\"rgpu\":{\"gpus\":[1]}}",
                             "{\"rgpu\":{\"gpus\":[{\"name\":3}]}}",
                             "{\"rgpu\":{\"gpus\":[],\"servers\":7}}", "}{\"rgpu\":"})
        cr_expect_not(from_comment(text).has_value(), "%s", text);
}

Test(usage, energy_is_summed_where_it_is_known)
{
    JobUsage used;
    pool::GpuUsage counted = gpu("H100", 100, 4, 500);
    counted.energy_j = 1234.5678;
    add(used, "gpu1", {lease(10, {counted, gpu("A100", 100, 1, 100)})});
    add(used, "gpu2", {lease(10, {gpu("H100", 100, 4, 500), counted})});
    const auto back = from_comment(through_sacctmgr(to_comment(used)));
    cr_assert(back && back->gpus.size() == 2);
    cr_expect_float_eq(back->gpus[0].joules.value_or(-1), 2 * 1234.568, 0.002);
    cr_expect(!back->gpus[1].joules, "of the A100 no server tells it");
}
