// SPDX-License-Identifier: Apache-2.0
// Barriers: all threads, named ones, arrive, reductions, threads that have ended.
#include "exec_support.h"

using namespace exec_test;

Test(exec_barrier, holds_every_block_size)
{
    auto kernel = load("rotate");
    for (uint32_t n : {1u, 2u, 31u, 32u, 33u, 64u, 100u, 255u, 256u, 511u, 1023u, 1024u}) {
        std::vector<uint32_t> out(3 * n, ~0u);
        launch_ok(*kernel, {.grid = {3, 1, 1}, .block = {n, 1, 1}, .shared = n * 4}, out.data(),
                  uint32_t{7});
        for (uint32_t i = 0; i < out.size(); ++i)
            cr_assert_eq(out[i], (i % n + 7) % n, "%u threads, %u", n, i);
    }
}

Test(exec_barrier, holds_in_three_dimensions)
{
    auto kernel = load("rotate");
    std::vector<uint32_t> out(8 * 60, ~0u);
    launch_ok(*kernel, {.grid = {2, 2, 2}, .block = {5, 4, 3}, .shared = 240}, out.data(),
              uint32_t{60});
    for (uint32_t i = 0; i < out.size(); ++i) cr_assert_eq(out[i], i % 60);
}

Test(exec_barrier, does_not_wait_for_threads_that_have_ended)
{
    for (uint32_t n : {2u, 64u, 200u, 1024u}) {
        uint32_t passed = 0;
        launch_ok(*load("leave_early"), {.grid = {4, 1, 1}, .block = {n, 1, 1}}, &passed);
        cr_assert_eq(passed, 4 * (n / 2));
    }
}

Test(exec_barrier, named_ones_join_producer_and_consumer)
{
    std::vector<uint32_t> out(32, 0);
    uint32_t rounds = 100;
    launch_ok(*load("producer_consumer"), {.block = {64, 1, 1}, .shared = 128}, out.data(), rounds);
    for (uint32_t lane = 0; lane < 32; ++lane) {
        uint32_t expected = 0;
        for (uint32_t i = 0; i < rounds; ++i) expected += 1000 * i + 31 - lane;
        cr_assert_eq(out[lane], expected);
    }
}

Test(exec_barrier, counts_whole_warps)
{
    for (uint32_t n : {33u, 50u, 64u}) {
        uint32_t passed = 0;
        launch_ok(*load("partial_warp_barrier"), {.block = {n, 1, 1}}, &passed);
        cr_assert_eq(passed, n);
    }
}

Test(exec_barrier, reduces)
{
    for (uint32_t limit : {0u, 1u, 77u, 100u}) {
        std::vector<uint32_t> out(300, ~0u);
        launch_ok(*load("reduce_barrier"), {.block = {100, 1, 1}}, out.data(), limit);
        for (uint32_t i = 0; i < 100; ++i) {
            cr_assert_eq(out[3 * i], limit);
            cr_assert_eq(out[3 * i + 1], limit == 100);
            cr_assert_eq(out[3 * i + 2], limit != 0);
        }
    }
}

Test(exec_barrier, divergence_is_reported_and_not_waited_for)
{
    Fault fault = launch_fault(*load("diverged_barrier"), {.grid = {5, 1, 1}, .block = {64, 1, 1}});
    cr_assert_eq(fault.kind, FaultKind::deadlock);
    cr_assert(fault.text.find("32 at barrier 0 for 64 threads; 32 at barrier 1") !=
                  std::string::npos,
              "%s", fault.text.c_str());
}
