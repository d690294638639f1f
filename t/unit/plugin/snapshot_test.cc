// The pool snapshot: its file, and what it says can never fit.
#include <cstdio>
#include <cstdlib>
#include <criterion/criterion.h>
#include <string>
#include <unistd.h>

#include "plugin/snapshot.h"

using namespace rgpu;
using namespace rgpu::plugin;

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

Test(snapshot, stays_within_a_page_however_many_servers_there_are)
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
    for (const char *text : {"", "x", "rgpu-pool 2\ntotal 0 0\n", "rgpu-pool 1\n", "rgpu-pool 1\ntotal 1 x\n",
                             "rgpu-pool 1\ntotal 0 0\nserver a 1 1\n", "rgpu-pool 1\ntotal 1 1\nserver a 1\n",
                             "rgpu-pool 1\ntotal 1 1\nserver a -1 1\n"})
        cr_expect(!parse_snapshot(text), "'%s' was taken", text);
    cr_expect(!parse_snapshot(std::string("rgpu-pool 1\ntotal 0 0\n") + std::string(kSnapshotBytes, '\n')));
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
    cr_expect(got.error().text == "9 GPUs on one node were asked for, but no server has more than 2 (gpu1 2, gpu2 2); "
                                  "ask for at most 2, or for more nodes",
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

Test(snapshot, path_comes_from_the_environment)
{
    setenv("RGPU_SNAPSHOT", "/elsewhere/pool", 1);
    cr_expect(snapshot_path() == "/elsewhere/pool");
    unsetenv("RGPU_SNAPSHOT");
    cr_expect(snapshot_path().starts_with("/"));
}
