// SPDX-License-Identifier: Apache-2.0
#include "pool/ledger/placement.h"

#include <criterion/criterion.h>

using namespace rgpu;
using namespace rgpu::pool;

static const uint64_t G = uint64_t{1} << 30;

static Request want(int gpus, int share = 100, uint64_t memory = 0)
{
    Request request;
    request.gpus = gpus;
    request.share = share;
    request.memory = memory;
    return request;
}

// A server whose GPUs have these free hundredths, 8 GiB each, memory in proportion.
static std::vector<GpuState> server(std::vector<int> free)
{
    std::vector<GpuState> gpus;
    for (size_t i = 0; i < free.size(); ++i) {
        GpuState gpu;
        gpu.index = static_cast<int>(i);
        gpu.uuid = "GPU-" + std::to_string(i);
        gpu.memory = 8 * G;
        gpu.free_share = free[i];
        gpu.free_memory = gpu.memory -
                          (free[i] == 100 ? 0 : memory_of(gpu, want(1, 100 - free[i])));
        gpus.push_back(gpu);
    }
    return gpus;
}

Test(placement, more_gpus_than_there_are_is_never)
{
    Placement placement = place(server({100, 100}), want(6));
    cr_assert_eq(placement.answer, Answer::never);
    cr_assert_eq(placement.reason, "it has 2 GPUs, 6 are wanted");
    cr_assert_eq(place({}, want(1)).answer, Answer::never);
}

Test(placement, more_memory_than_a_gpu_has_is_never)
{
    Placement placement = place(server({100, 100}), want(1, 50, 9 * G));
    cr_assert_eq(placement.answer, Answer::never);
    cr_assert(placement.reason.find("9G") != std::string::npos, "%s", placement.reason.c_str());
    cr_assert(placement.reason.find("8G") != std::string::npos, "%s", placement.reason.c_str());
}

Test(placement, what_others_hold_is_later)
{
    cr_assert_eq(place(server({0, 100}), want(2)).answer, Answer::later);
    cr_assert_eq(place(server({40, 30}), want(1, 50)).answer, Answer::later);
    cr_assert_not(place(server({0, 100}), want(2)).reason.empty());
}

Test(placement, memory_binds_as_well_as_share)
{
    auto gpus = server({100});
    gpus[0].free_share = 50;
    gpus[0].free_memory = 1 * G;
    cr_assert_eq(place(gpus, want(1, 10, 2 * G)).answer, Answer::later);
    cr_assert_eq(place(gpus, want(1, 10, 1 * G)).answer, Answer::now);
}

Test(placement, a_part_goes_to_the_fullest_gpu_that_has_room)
{
    Placement placement = place(server({100, 60, 50, 40}), want(1, 50));
    cr_assert_eq(placement.answer, Answer::now);
    cr_assert_eq(placement.chosen, std::vector<size_t>{2});
    cr_assert_eq(placement.fit.whole_taken, 0);
    cr_assert_eq(placement.fit.whole_left, 1);
}

Test(placement, parts_of_several_gpus_are_of_different_gpus)
{
    Placement placement = place(server({100, 100, 50}), want(2, 50));
    cr_assert_eq(placement.chosen, (std::vector<size_t>{0, 2}));
}

Test(placement, the_closest_of_equal_gpus_are_chosen)
{
    // 0-1 and 2-3 are pairs; 0 is in use.
    Distances far = {{0, 1, 9, 9}, {1, 0, 9, 9}, {9, 9, 0, 1}, {9, 9, 1, 0}};
    Placement placement = place(server({0, 100, 100, 100}), want(2), far);
    cr_assert_eq(placement.chosen, (std::vector<size_t>{2, 3}));
    cr_assert_eq(placement.fit.distance, 1);
}

Test(placement, a_drained_gpu_is_no_hole)
{
    auto gpus = server({100, 100, 50, 100});
    gpus[1].drained = gpus[2].drained = "not lent";
    Placement placement = place(gpus, want(1));
    cr_assert_eq(placement.fit.whole_left, 1);
    cr_assert_eq(placement.fit.share_left, 100);
}

Test(placement, what_is_here_goes_before_any_fit_elsewhere)
{
    // The other server would be left without a hole, this one with a big one broken.
    auto there = place(server({100}), want(1)), here = place(server({100, 100, 100, 100}), want(1));
    cr_assert(better(there.fit, here.fit));
    here.fit.here = true;
    cr_assert(better(here.fit, there.fit));
    cr_assert_not(better(there.fit, here.fit));
    auto other = place(server({100, 100}), want(1));
    other.fit.here = true;
    cr_assert(better(other.fit, here.fit), "of two that are here the one that fits better");
}

Test(placement, exactly_enough_is_better_than_a_big_hole)
{
    Placement two = place(server({100, 100}), want(2)),
              four = place(server({100, 100, 100, 100}), want(2));
    cr_assert(better(two.fit, four.fit));
    cr_assert_not(better(four.fit, two.fit));
}

Test(placement, a_part_goes_where_no_whole_gpu_is_broken)
{
    Placement used = place(server({50, 100, 100, 100}), want(1, 50)),
              small = place(server({100}), want(1, 50));
    cr_assert(better(used.fit, small.fit));
}

Test(placement, the_least_loaded_wins_among_equals)
{
    Fit idle, busy;
    idle.load = 0;
    busy.load = 50;
    cr_assert(better(idle, busy));
    Fit close = busy, far = idle;
    close.distance = 1;
    far.distance = 2;
    cr_assert(better(close, far), "distance before load");
}

Test(placement, the_parts_of_a_gpu_never_exceed_it)
{
    GpuState gpu;
    gpu.memory = 8 * G + 99;
    cr_assert_leq(memory_of(gpu, want(1, 33)) * 3 + memory_of(gpu, want(1, 1)), gpu.memory);
    cr_assert_eq(memory_of(gpu, want(1, 100)), gpu.memory);
    cr_assert_eq(memory_of(gpu, want(1, 10, 5 * G)), 5 * G);
}

Test(placement, the_network_card_decides_among_gpus_that_lie_equally_close)
{
    // [a][a] is the distance to the card: 2 and 3 are near it, and nothing else differs.
    Distances distances(4, std::vector<int>(4, 100));
    for (size_t i = 0; i < 4; ++i) distances[i][i] = i < 2 ? 10 : 1;
    cr_assert_eq(place(server({100, 100, 100, 100}), want(1), distances).chosen,
                 std::vector<size_t>{2});
    cr_assert_eq(place(server({100, 100, 100, 100}), want(2), distances).chosen,
                 (std::vector<size_t>{2, 3}));
    cr_assert_eq(place(server({100, 100, 100, 100}), want(2), distances).fit.distance, 102);
    // What joins GPUs outweighs it.
    distances[0][1] = distances[1][0] = 50;
    cr_assert_eq(place(server({100, 100, 100, 100}), want(2), distances).chosen,
                 (std::vector<size_t>{0, 1}));
    // And fitting well outweighs both.
    cr_assert_eq(place(server({50, 100, 100, 100}), want(1, 50), distances).chosen,
                 std::vector<size_t>{0});
}

Test(placement, policies_to_compare_with)
{
    auto pool = server({100, 40, 80});
    cr_assert_eq(place(pool, want(1, 30)).chosen, std::vector<size_t>{1});
    cr_assert_eq(place(pool, want(1, 30), {}, {}, Policy::worst_fit).chosen,
                 std::vector<size_t>{0});
    cr_assert_eq(place(server({20, 40, 80}), want(1, 30), {}, {}, Policy::first_fit).chosen,
                 std::vector<size_t>{1});
    Fit full, empty;
    full.whole_left = 0, empty.whole_left = 4;
    cr_assert(better(full, empty));
    cr_assert(better(empty, full, Policy::worst_fit));
    cr_assert_not(better(full, empty, Policy::first_fit));
    cr_assert_not(better(empty, full, Policy::first_fit));
    for (Policy policy : {Policy::best_fit, Policy::worst_fit, Policy::first_fit})
        cr_assert(policy_named(name(policy)) == policy);
    cr_assert_not(policy_named("best fit"));
}

Test(placement, a_driver_must_be_told_and_new_enough)
{
    Request request = want(1);
    request.filter.driver = "570.86.10";
    cr_assert_eq(place(server({100}), request, {}, {13000, "570.86.10"}).answer, Answer::now);
    Placement older = place(server({100}), request, {}, {13000, "570.9"});
    cr_assert_eq(older.answer, Answer::never);
    cr_assert_eq(older.reason, "its driver is 570.9, 570.86.10 or newer is wanted");
    Placement untold = place(server({100}), request, {}, {13000, ""});
    cr_assert_eq(untold.answer, Answer::never);
    cr_assert_eq(untold.reason, "its driver's release is not known, 570.86.10 or newer is wanted");
    cr_assert_eq(place(server({100}), want(1), {}, {13000, ""}).answer, Answer::now);
}
