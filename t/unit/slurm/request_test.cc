// SPDX-License-Identifier: Apache-2.0
// GRES lists and the values of --rgpu-share and --rgpu-mem.
#include <criterion/criterion.h>

#include "slurm/terms/request.h"

using namespace rgpu;
using namespace rgpu::slurm;

static void expect_gpus(const char *tres, unsigned gpus)
{
    auto got = gpus_in_tres(tres);
    cr_assert(got, "'%s' was refused: %s", tres, got ? "" : got.error().text.c_str());
    cr_expect(got->count == gpus, "'%s' gave %u, not %u", tres, got->count, gpus);
    cr_expect(got->type.empty());
}

Test(request, counts_gpus_as_every_slurm_writes_them)
{
    expect_gpus("gres:rgpu:2", 2);
    expect_gpus("gres/rgpu:2", 2);
    expect_gpus("gres/rgpu=2", 2);
    expect_gpus("gres:rgpu", 1);
    expect_gpus("rgpu:3", 3);
    expect_gpus("gres:rgpu:1k", 1024);
    expect_gpus("gres:rgpu:0", 0);
}

Test(request, finds_rgpu_among_other_gres)
{
    expect_gpus("gres:gpu:4,gres:rgpu:2", 2);
    expect_gpus("gres:rgpu:2;gres:nic:1", 2);
    expect_gpus("gres:rgpu:1,gres:rgpu:2", 3);
    expect_gpus("gres:gpu:a100:4", 0);
    expect_gpus("gres:rgpux:4", 0);
    expect_gpus("gres:none", 0);
    expect_gpus("", 0);
}

Test(request, reads_types_as_every_slurm_writes_them)
{
    for (const char *tres :
         {"gres:rgpu:a100:2", "gres/rgpu:a100:2", "gres/rgpu:a100=2",
          "gres:gpu:h100:4,gres:rgpu:a100:2", "gres:rgpu:a100:1,gres:rgpu:a100:1"}) {
        auto got = gpus_in_tres(tres);
        cr_assert(got, "'%s' was refused: %s", tres, got ? "" : got.error().text.c_str());
        cr_expect(got->count == 2 && got->type == "a100", "'%s' gave %u of '%s'", tres, got->count,
                  got->type.c_str());
    }
    auto one = gpus_in_tres("gres:rgpu:nvidia_h100-sxm5");
    cr_expect(one && one->count == 1 && one->type == "nvidia_h100-sxm5");
}

Test(request, refuses_two_types_in_one_job)
{
    for (const char *tres : {"gres:rgpu:a100:1,gres:rgpu:h100:1", "gres:rgpu:1,gres:rgpu:h100:1"}) {
        auto got = gpus_in_tres(tres);
        cr_assert(!got, "'%s' was taken", tres);
        cr_expect(got.error().text.find("heterogeneous job") != std::string::npos);
    }
    auto none = gpus_in_tres("gres:rgpu:a100:0,gres:rgpu:h100:1");
    cr_expect(none && none->count == 1 && none->type == "h100");
}

Test(request, refuses_nonsense)
{
    for (const char *tres :
         {"gres:rgpu:a/b:2", "gres:rgpu:a100:x", "gres:rgpu::2", "gres:rgpu:-1", "gres:rgpu:2:3:4",
          "gres:rgpu:99999999999999999999", "gres:rgpu:9999g"}) {
        auto got = gpus_in_tres(tres);
        cr_assert(!got, "'%s' was taken", tres);
        cr_expect(got.error().kind == ErrorKind::invalid);
        cr_expect(got.error().text.find("--gres=rgpu:N") != std::string::npos, "no cure in: %s",
                  got.error().text.c_str());
    }
}

Test(request, never_overflows_the_sum)
{
    std::string tres = "gres:rgpu:1000000";
    for (int i = 0; i < 10; ++i) tres += ",gres:rgpu:1000000";
    cr_expect(!gpus_in_tres(tres));
}

Test(request, reads_shares)
{
    auto one = slurm::parse_share("50");
    cr_assert(one);
    cr_expect(one->least == 50 && one->most == 50);
    auto percent = slurm::parse_share("50%");
    cr_assert(percent);
    cr_expect(percent->least == 50);
    auto range = slurm::parse_share("30-100");
    cr_assert(range);
    cr_expect(range->least == 30 && range->most == 100);
    auto gaps = slurm::parse_share("0-100");
    cr_assert(gaps);
    cr_expect(gaps->least == 0 && gaps->most == 100);
}

Test(request, refuses_wrong_shares_by_the_option)
{
    for (const char *text : {"", "0", "101", "50-30", "-", "50-", "-50", "1-2-3", "0-0", "x", "50x",
                             "0.5", "5000000000"}) {
        auto got = slurm::parse_share(text);
        cr_assert(!got, "'%s' was taken", text);
        cr_expect(got.error().text.starts_with("--rgpu-share"), "%s", got.error().text.c_str());
    }
}

Test(request, reads_memory_with_its_unit)
{
    struct {
        const char *text;
        uint64_t bytes;
    } cases[] = {
        {"512M", 512ull << 20}, {"8G", 8ull << 30}, {"8GiB", 8ull << 30}, {"1T", 1ull << 40}};
    for (const auto &c : cases) {
        auto got = parse_memory(c.text);
        cr_assert(got, "'%s' was refused", c.text);
        cr_expect(*got == c.bytes, "'%s'", c.text);
    }
}

Test(request, refuses_memory_without_unit)
{
    for (const char *text : {"8", "0G", "", "G", "-1G", "8X", "8G8"}) {
        auto got = parse_memory(text);
        cr_assert(!got, "'%s' was taken", text);
        cr_expect(got.error().text.starts_with("--rgpu-mem"), "%s", got.error().text.c_str());
    }
}
