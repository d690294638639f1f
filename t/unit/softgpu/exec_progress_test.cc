// SPDX-License-Identifier: Apache-2.0
// Independent progress: locks, blocks that wait for each other, grid-wide barriers, many launches.
#include <atomic>
#include <thread>

#include "exec_support.h"

using namespace exec_test;

Test(exec_progress, every_block_and_thread_runs_once)
{
    for (bool per_thread : {false, true}) {
        auto kernel = load(per_thread ? "add_one_thread" : "add_one_block", per_thread);
        for (Dim3 grid : {Dim3{1, 1, 1}, {2, 1, 1}, {7, 5, 3}, {1000, 1, 1}, {1, 1, 65}}) {
            std::vector<uint32_t> data(grid.count() * 24, 0);
            launch_ok(*kernel, {.grid = grid, .block = {4, 3, 2}}, data.data());
            for (uint32_t v : data) cr_assert_eq(v, 1u);
        }
    }
}

Test(exec_progress, threads_know_who_they_are)
{
    Dim3 grid{3, 2, 2}, block{5, 4, 3};
    std::vector<uint32_t> out(grid.count() * block.count() * 8, ~0u);
    launch_ok(*load("write_ids"), {.grid = grid, .block = block}, out.data());
    size_t at = 0;
    for (uint32_t b = 0; b < grid.count(); ++b)
        for (uint32_t i = 0; i < block.count(); ++i, at += 8) {
            uint32_t expected[] = {i % 5,  i / 5 % 4, i / 20,    i % 32,
                                   i / 32, b % 3,     b / 3 % 2, b / 6};
            for (int k = 0; k < 8; ++k)
                cr_assert_eq(out[at + k], expected[k], "block %u thread %u: %d", b, i, k);
        }
}

Test(exec_progress, a_lock_between_threads_of_a_block)
{
    uint32_t lock = 0;
    uint64_t counter = 0;
    launch_ok(*load("spin_lock"), {.block = {96, 1, 1}}, &lock, &counter, uint32_t{20});
    cr_assert_eq(counter, 96u * 20);
}

Test(exec_progress, a_lock_between_blocks)
{
    uint32_t lock = 0;
    uint64_t counter = 0;
    launch_ok(*load("spin_lock"), {.grid = {40, 1, 1}, .block = {32, 1, 1}}, &lock, &counter,
              uint32_t{5});
    cr_assert_eq(counter, 40u * 32 * 5);
}

Test(exec_progress, blocks_wait_for_earlier_blocks)
{
    uint32_t turn = 0;
    launch_ok(*load("block_chain"), {.grid = {500, 1, 1}, .block = {64, 1, 1}}, &turn, uint32_t{0});
    cr_assert_eq(turn, 500u);
}

// Legal only as far as blocks are resident together; all of a cooperative launch are.
Test(exec_progress, threads_that_meet_in_a_loop_leave_room_for_others)
{
    for (uint32_t threads : {3u, 32u, 100u}) {
        uint32_t flag = 0;
        launch_ok(*load("busy_pair"), {.block = {threads, 1, 1}}, &flag);
    }
    uint32_t flag = 0;
    launch_ok(*load("busy_block"), {.grid = {cores() + 3, 1, 1}, .block = {64, 1, 1}}, &flag);
}

Test(exec_progress, cooperative_blocks_wait_for_later_blocks)
{
    uint32_t turn = 0;
    launch_ok(*load("block_chain"), {.grid = {300, 1, 1}, .block = {16, 1, 1}, .cooperative = true},
              &turn, uint32_t{1});
    cr_assert_eq(turn, 300u);
}

Test(exec_progress, as_many_blocks_as_a_gpu_holds_are_resident)
{
    uint32_t turn = 0, blocks = cores() * (2048 / 256);
    launch_ok(*load("block_chain"), {.grid = {blocks, 1, 1}, .block = {256, 1, 1}}, &turn,
              uint32_t{1});
    cr_assert_eq(turn, blocks);
}

Test(exec_progress, the_whole_grid_synchronises)
{
    uint32_t rounds = 20;
    for (uint32_t blocks : {1u, 2u, 17u, 64u}) {
        std::vector<uint32_t> data(rounds * blocks, 0);
        launch_ok(*load("grid_sync"),
                  {.grid = {blocks, 1, 1}, .block = {48, 1, 1}, .cooperative = true}, data.data(),
                  rounds);
    }
    // Without a cooperative launch there is no workspace, and the kernel traps, as on a GPU.
    std::vector<uint32_t> data(rounds);
    cr_assert_eq(launch_fault(*load("grid_sync"), {}, data.data(), rounds).kind, FaultKind::trap);
}

Test(exec_progress, sleeps_about_as_long_as_it_is_told)
{
    uint64_t slept = 0;
    launch_ok(*load("sleep_once"), {.block = {1, 1, 1}}, &slept, uint32_t{200000});
    cr_assert_geq(slept, 190000u);
}

Test(exec_progress, many_grids_at_once)
{
    auto rotate = load("rotate"), add = load("add_one_block", false), lock = load("spin_lock"),
         trap = load("trap");
    std::atomic<int> bad{0};
    auto client = [&](int seed) {
        for (int i = 0; i < 15; ++i) {
            switch ((seed + i) % 4) {
            case 0: {
                std::vector<uint32_t> out(5 * 96, ~0u);
                if (launch(*rotate, {.grid = {5, 1, 1}, .block = {96, 1, 1}, .shared = 384},
                           out.data(), uint32_t{3}))
                    ++bad;
                for (uint32_t k = 0; k < out.size(); ++k) bad += out[k] != (k % 96 + 3) % 96;
                break;
            }
            case 1: {
                std::vector<uint32_t> data(200 * 32, 0);
                if (launch(*add, {.grid = {200, 1, 1}}, data.data())) ++bad;
                for (uint32_t v : data) bad += v != 1;
                break;
            }
            case 2: {
                uint32_t word = 0;
                uint64_t counter = 0;
                if (launch(*lock, {.grid = {6, 1, 1}}, &word, &counter, uint32_t{2})) ++bad;
                bad += counter != 6 * 32 * 2;
                break;
            }
            default: {
                auto fault = launch(*trap, {.grid = {9, 1, 1}}, uint64_t{100});
                bad += !fault || fault->kind != FaultKind::trap;
            }
            }
        }
    };
    std::vector<std::thread> clients;
    for (int i = 0; i < 6; ++i) clients.emplace_back(client, i);
    for (auto &c : clients) c.join();
    cr_assert_eq(bad.load(), 0);
}
