// SPDX-License-Identifier: Apache-2.0
// The pool snapshot: its file, and what it says can never fit.
#include <criterion/criterion.h>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <unistd.h>

#include "slurm/terms/snapshot.h"

using namespace rgpu;
using namespace rgpu::slurm;

static const uint64_t kGiB = 1ull << 30;

static Snapshot two_by_two()
{
    auto pool = parse_snapshot(format_snapshot({{"gpu1", 2, 2 * kGiB}, {"gpu2", 2, 2 * kGiB}}));
    cr_assert(pool);
    return *pool;
}

static Request gpus(unsigned n)
{
    Request out;
    out.gpus = n;
    return out;
}

Test(snapshot, reads_what_it_writes)
{
    auto pool = parse_snapshot(format_snapshot({{"small", 1, kGiB}, {"large", 8, 80 * kGiB}}));
    cr_assert(pool);
    cr_expect(pool->complete());
    cr_expect(pool->total_servers == 2 && pool->total_gpus == 9);
    cr_expect(pool->servers[0].name == "large" && pool->servers[0].memory == 80 * kGiB);
}

Test(snapshot, stays_small_however_many_servers_there_are)
{
    std::vector<PoolServer> servers;
    for (unsigned i = 0; i < 1000; ++i)
        servers.push_back({"server-with-a-long-name-" + std::to_string(i), i % 9, kGiB});
    std::string text = format_snapshot(servers);
    cr_expect(text.size() <= kSnapshotBytes);
    auto pool = parse_snapshot(text);
    cr_assert(pool);
    cr_expect(!pool->complete() && pool->total_servers == 1000);
    cr_expect(pool->servers[0].gpus == 8, "the largest are kept");
    cr_expect(can_ever_fit(*pool, gpus(8), 100), "what was left out may hold it");
    cr_expect(!can_ever_fit(*pool, gpus(9), 1));
}

Test(snapshot, refuses_what_is_none)
{
    for (const char *text :
         {"", "x", "rgpu-pool 2\ntotal 0 0\n", "rgpu-pool 1\n", "rgpu-pool 1\ntotal 1 x\n",
          "rgpu-pool 1\ntotal 0 0\nserver a 1 1\n", "rgpu-pool 1\ntotal 1 1\nserver a 1\n",
          "rgpu-pool 1\ntotal 1 1\nserver a -1 1\n",
          "rgpu-pool 1\ntotal 1 1\nserver a 1 1\nmodel b 1 1 80 1 x\n",
          "rgpu-pool 1\ntotal 1 1\nserver a 1 1\nmodel a 1 1 80 1\n"})
        cr_expect(!parse_snapshot(text), "'%s' was taken", text);
    cr_expect(!parse_snapshot(std::string("rgpu-pool 1\ntotal 0 0\n") +
                              std::string(kSnapshotBytes, '\n')));
}

Test(snapshot, skips_lines_of_later_versions)
{
    cr_expect(parse_snapshot("rgpu-pool 1\ntotal 1 1\ncolour blue\nserver a 1 1\n"));
}

Test(snapshot, is_replaced_whole_and_read_back)
{
    char name[] = "/tmp/snapshot_test.XXXXXX";
    int fd = mkstemp(name);
    cr_assert(fd >= 0);
    close(fd);
    cr_assert(write_snapshot(name, {{"gpu1", 2, kGiB}}));
    auto pool = read_snapshot(name);
    cr_expect(pool && pool->total_gpus == 2);
    unlink(name);
    auto gone = read_snapshot(name);
    cr_expect(!gone && gone.error().kind == ErrorKind::unavailable);
    auto wrong = write_snapshot("/nonexistent/pool", {});
    cr_expect(!wrong && wrong.error().text.find("/nonexistent/pool") != std::string::npos);
}

Test(snapshot, says_why_a_request_can_never_fit)
{
    auto got = can_ever_fit(two_by_two(), gpus(9), 1);
    cr_assert(!got);
    cr_expect(
        got.error().text ==
            "9 GPUs on one node were asked for, but no server has more than 2 (gpu1 2, gpu2 2); "
            "ask for at most 2",
        "%s", got.error().text.c_str());
}

Test(snapshot, lets_through_what_fits_an_idle_pool)
{
    cr_expect(can_ever_fit(two_by_two(), gpus(2), 2));
    cr_expect(can_ever_fit(two_by_two(), gpus(1), 4));
    Request shared = gpus(1);
    shared.share = {25, 25};
    cr_expect(can_ever_fit(two_by_two(), shared, 16));
    cr_expect(can_ever_fit(two_by_two(), gpus(0), 100));
}

Test(snapshot, counts_nodes_against_the_whole_pool)
{
    cr_expect(!can_ever_fit(two_by_two(), gpus(2), 3));
    cr_expect(!can_ever_fit(two_by_two(), gpus(1), 5));
    Request shared = gpus(1);
    shared.share = {40, 100};
    cr_expect(can_ever_fit(two_by_two(), shared, 8));
    cr_expect(!can_ever_fit(two_by_two(), shared, 9));
}

Test(snapshot, compares_memory_with_servers_large_enough)
{
    auto pool = parse_snapshot(format_snapshot({{"wide", 4, 8 * kGiB}, {"deep", 1, 80 * kGiB}}));
    cr_assert(pool);
    Request request = gpus(1);
    request.memory = 40 * kGiB;
    cr_expect(can_ever_fit(*pool, request, 1));
    request.gpus = 2;
    auto got = can_ever_fit(*pool, request, 1);
    cr_assert(!got);
    cr_expect(got.error().text.find("8 GiB") != std::string::npos, "%s", got.error().text.c_str());
}

static Snapshot of_two_kinds()
{
    auto pool = parse_snapshot(format_snapshot(
        {{"old", 4, 40 * kGiB, {{4, 40 * kGiB, 80, 12040, "NVIDIA A100-SXM4-40GB"}}, "570.9"},
         {"new",
          2,
          80 * kGiB,
          {{2, 80 * kGiB, 90, 13000, "NVIDIA H100 80GB HBM3"}},
          "580.65.06"}}));
    cr_assert(pool);
    cr_assert(pool->servers[0].models.size() == 1 &&
              pool->servers[0].models[0].name == "NVIDIA A100-SXM4-40GB");
    return *pool;
}

Test(snapshot, knows_the_kinds_of_gpus)
{
    Request request = gpus(2);
    request.type = "h100";
    cr_expect(can_ever_fit(of_two_kinds(), request, 1));
    cr_expect(!can_ever_fit(of_two_kinds(), request, 2), "one server has them");
    request.type = "nvidia_h100";
    cr_expect(can_ever_fit(of_two_kinds(), request, 1), "_ stands for a space");
    request.gpus = 3;
    auto got = can_ever_fit(of_two_kinds(), request, 1);
    cr_assert(!got);
    cr_expect(
        got.error().text ==
            "3 GPUs of type nvidia_h100 on one node were asked for, but no server has more than 2 "
            "of them "
            "(old 4 NVIDIA A100-SXM4-40GB, new 2 NVIDIA H100 80GB HBM3); ask for what there is",
        "%s", got.error().text.c_str());
    cr_expect(nodes_that_fit(of_two_kinds(), gpus(2), 100) == 3);
}

Test(snapshot, compares_every_filter)
{
    struct {
        const char *option, *value;
        unsigned gpus;
        bool fits;
    } cases[] = {
        {"rgpu-server", "new", 2, true},
        {"rgpu-server", "new", 3, false},
        {"rgpu-server", "new,old", 4, true},
        {"rgpu-server", "other", 1, false},
        {"rgpu-name", "a100", 4, true},
        {"rgpu-name", "v100", 1, false},
        {"rgpu-name", "v100,h100", 2, true},
        {"rgpu-min-memory", "60G", 2, true},
        {"rgpu-min-memory", "60G", 3, false},
        {"rgpu-min-cc", "9.0", 2, true},
        {"rgpu-min-cc", "10.0", 1, false},
        {"rgpu-min-cuda", "12.4", 4, true},
        {"rgpu-min-cuda", "12.5", 4, false},
        {"rgpu-uuid", "GPU-1,GPU-2", 2, true},
        {"rgpu-uuid", "GPU-1", 2, false},
        {"rgpu-min-driver", "570.9", 4, true},
        {"rgpu-min-driver", "570.10", 2, true},
        {"rgpu-min-driver", "570.10", 3, false},
        {"rgpu-min-driver", "580.65.7", 1, false},
    };
    for (const auto &c : cases) {
        Request request = gpus(c.gpus);
        for (const FilterOption &option : filter_options())
            if (option.name == std::string_view(c.option))
                cr_assert(add_filter(option, c.value, request.filters));
        auto got = can_ever_fit(of_two_kinds(), request, 1);
        cr_expect(got.has_value() == c.fits, "--%s=%s with %u GPUs: %s", c.option, c.value, c.gpus,
                  got ? "taken" : got.error().text.c_str());
    }
}

Test(snapshot, a_driver_that_is_not_told_is_never_new_enough)
{
    Request request = gpus(1);
    request.filters.driver = "570";
    auto told =
        parse_snapshot(format_snapshot({{"gpu1", 1, kGiB, {{1, kGiB, 80, 12040, "A"}}, "560.35"},
                                        {"gpu2", 1, kGiB, {{1, kGiB, 80, 12040, "A"}}, ""}}));
    cr_assert(told && told->servers[0].driver == "560.35" && told->servers[1].driver == "");
    auto got = can_ever_fit(*told, request, 1);
    cr_assert(!got);
    cr_expect(got.error().text.find("(drivers: gpu1 560.35, gpu2 does not tell)") !=
                  std::string::npos,
              "%s", got.error().text.c_str());
    // The line of an rgpu before this one: then nothing is known.
    auto silent = parse_snapshot(format_snapshot({{"gpu1", 1, kGiB, {{1, kGiB, 80, 12040, "A"}}}}));
    cr_assert(silent && !silent->servers[0].driver);
    cr_expect(can_ever_fit(*silent, request, 1));
    for (const char *line : {"driver 570 gpu9\n", "driver new gpu1\n"})
        cr_expect(!parse_snapshot("rgpu-pool 1\ntotal 1 1\nserver gpu1 1 1\n" + std::string(line)),
                  "%s", line);
}

Test(snapshot, a_span_may_have_all_of_the_pool)
{
    Request request = gpus(3);
    auto no = can_ever_fit(two_by_two(), request, 1);
    cr_assert(!no);
    cr_expect(
        no.error().text.ends_with(
            "ask for at most 2, or for more nodes, or for GPUs of several servers (--rgpu-span)"),
        "%s", no.error().text.c_str());
    request.span = true;
    cr_expect(can_ever_fit(two_by_two(), request, 1));
    cr_expect(!can_ever_fit(two_by_two(), request, 2), "one such node has it");
    cr_expect_eq(nodes_that_fit(two_by_two(), request, 9), 1u);
    request.share = {50, 100};
    cr_expect_eq(nodes_that_fit(two_by_two(), request, 9), 2u);
    request = gpus(5);
    request.span = true;
    no = can_ever_fit(two_by_two(), request, 1);
    cr_assert(!no);
    cr_expect(no.error().text.find("the whole pool has 4 (") != std::string::npos, "%s",
              no.error().text.c_str());

    request = gpus(5);
    request.span = true;
    request.type = "a100";
    no = can_ever_fit(of_two_kinds(), request, 1);
    cr_assert(!no);
    cr_expect(no.error().text.find("nor all together, has more than 4 of them") !=
                  std::string::npos,
              "%s", no.error().text.c_str());
    request.type = "nvidia";
    cr_expect(can_ever_fit(of_two_kinds(), request, 1));
    request.memory = 60 * kGiB;
    cr_expect(!can_ever_fit(of_two_kinds(), request, 1), "two have so much");
    request.gpus = 2;
    cr_expect(can_ever_fit(of_two_kinds(), request, 1));
}

Test(snapshot, without_kinds_everything_may_be_of_one)
{
    Request request = gpus(2);
    request.type = "h100";
    cr_expect(can_ever_fit(two_by_two(), request, 2));
    std::vector<PoolServer> many;
    for (unsigned i = 0; i < 240; ++i)
        many.push_back(
            {"gpu" + std::to_string(i), 8, kGiB, {{8, kGiB, 90, 13000, std::string(50, 'x')}}});
    auto pool = parse_snapshot(format_snapshot(many));
    cr_assert(pool && pool->complete());
    cr_expect(pool->servers[0].models.empty(), "all kinds or none");
}

Test(snapshot, path_comes_from_the_environment)
{
    setenv("RGPU_SNAPSHOT", "/elsewhere/pool", 1);
    cr_expect(snapshot_path() == "/elsewhere/pool");
    unsetenv("RGPU_SNAPSHOT");
    cr_expect(snapshot_path().starts_with("/"));
}

Test(snapshot, knows_uuids_and_what_gpus_mean)
{
    std::vector<PoolServer> servers = {{"gpu1", 2, kGiB, {}, {}, {"GPU-a", "GPU-b"}},
                                       {"gpu2", 1, kGiB, {}, {}, {"GPU-c"}}};
    auto pool = parse_snapshot(format_snapshot(servers, {true, true}));
    cr_assert(pool);
    cr_expect(pool->facts.gpus_mean_rgpu && pool->facts.no_node_gpus &&
              pool->servers[0].uuids == servers[0].uuids);
    Request request = gpus(1);
    request.filters.uuids = {"GPU-c"};
    cr_expect(can_ever_fit(*pool, request, 1));
    request.filters.uuids = {"GPU-d"};
    auto refused = can_ever_fit(*pool, request, 1);
    cr_expect(!refused &&
              refused.error().text.find("--rgpu-uuid=GPU-d: no server") != std::string::npos);
    request.gpus = 2;
    request.filters.uuids = {"GPU-b", "GPU-c"};
    cr_expect(!can_ever_fit(*pool, request, 1), "two servers");
    request.span = true;
    cr_expect(can_ever_fit(*pool, request, 1));
    pool->servers[1].uuids.clear();
    request.gpus = 1;
    request.filters.uuids = {"GPU-d"};
    cr_expect(can_ever_fit(*pool, request, 1), "a server that does not tell may have it");
}

Test(snapshot, advises_a_span_only_where_it_would_do)
{
    PoolModel a100{2, kGiB, 80, 13000, "NVIDIA A100"}, h100{2, kGiB, 90, 13000, "NVIDIA H100"};
    auto pool =
        parse_snapshot(format_snapshot({{"gpu1", 2, kGiB, {a100}}, {"gpu2", 2, kGiB, {h100}}}));
    cr_assert(pool);
    Request request = gpus(3);
    request.type = "a100";
    auto refused = can_ever_fit(*pool, request, 1);
    cr_assert(!refused);
    cr_expect(refused.error().text.find("--rgpu-span") == std::string::npos, "%s",
              refused.error().text.c_str());
    cr_expect(refused.error().text.find("more than 2 of them") != std::string::npos);
    request.type.clear();
    refused = can_ever_fit(*pool, request, 1);
    cr_expect(!refused && refused.error().text.find("--rgpu-span") != std::string::npos);
}

Test(snapshot, says_of_which_types_a_request_must_be)
{
    using Types = std::vector<std::string>;
    PoolModel a100{2, kGiB, 80, 13000, "NVIDIA A100"}, h100{2, kGiB, 90, 13000, "NVIDIA H100"};
    auto pool =
        parse_snapshot(format_snapshot({{"gpu1", 2, kGiB, {a100}}, {"gpu2", 2, kGiB, {h100}}}));
    cr_assert(pool);
    const Types sold = {"a100", "h100"};
    Request request = gpus(1);
    cr_expect(types_of(&*pool, request, sold).empty(), "any will do");
    cr_expect(types_of(&*pool, request, {"nvidia"}) == Types{"nvidia"}, "all are of this one");
    request.filters.compute_capability = 90;
    cr_expect(types_of(&*pool, request, sold) == Types{"h100"}, "one is left");
    request.filters = {};
    request.type = "A100";
    cr_expect(types_of(nullptr, request, sold) == Types{"a100"}, "named, whatever is known");
    request.type = "nvidia_a100";
    cr_expect(types_of(nullptr, request, sold).empty());
    cr_expect(types_of(&*pool, request, sold) == Types{"a100"});
    cr_expect(gpus_of_type(pool->servers[0], "a100") == 2);
    cr_expect(gpus_of_type({"x", 3, kGiB}, "a100") == 3, "names that are not known may be it");
}
