// SPDX-License-Identifier: Apache-2.0
// Warp operations against the definitions in the PTX ISA, computed here on their own.
#include "exec_support.h"

using namespace exec_test;

namespace {

constexpr uint32_t kMasks[] = {0xFFFFFFFF, 0x0000FFFF, 0xAAAAAAAA,
                               0x80000001, 0x00000010, 0x7FFFFFFE};

struct Shuffled {
    uint32_t value, valid;
};

// As CUDA's __shfl_*_sync(value, b, width) is defined: within segments of `width` lanes.
Shuffled expected_shuffle(Shfl mode, uint32_t mask, uint32_t lane, uint32_t b, uint32_t width)
{
    uint32_t segment = lane / width * width, in = lane - segment;
    int64_t from = 0;
    bool valid = true;
    switch (mode) {
    case Shfl::up:
        from = int64_t{in} - b;
        valid = from >= 0;
        break;
    case Shfl::down:
        from = int64_t{in} + b;
        valid = from < width;
        break;
    case Shfl::bfly:
        from = int64_t{lane ^ b} - segment;
        valid = from < width;
        break;
    case Shfl::idx: from = b % width; break;
    }
    uint32_t source = valid ? static_cast<uint32_t>(segment + from) : lane;
    if (!(mask >> source & 1)) source = lane;
    return {source * 11 + 5, valid};
}

}  // namespace

Test(exec_warp, shuffles_in_every_mode_and_width)
{
    auto kernel = load("shuffle");
    for (uint32_t mask : kMasks)
        for (uint32_t mode = 0; mode < 4; ++mode)
            for (uint32_t width : {1u, 2u, 4u, 8u, 16u, 32u})
                for (uint32_t b : {0u, 1u, 2u, 3u, 7u, 16u, 31u}) {
                    if (static_cast<Shfl>(mode) == Shfl::bfly && b >= width) continue;
                    uint32_t c = (32 - width) << 8 | (mode == 0 ? 0 : 31);
                    std::vector<uint32_t> out(64, 77);
                    launch_ok(*kernel, {}, out.data(), mode, mask, b, c);
                    for (uint32_t lane = 0; lane < 32; ++lane) {
                        if (!(mask >> lane & 1)) continue;
                        auto e = expected_shuffle(static_cast<Shfl>(mode), mask, lane, b, width);
                        cr_assert_eq(out[2 * lane], e.value,
                                     "mode %u mask %08x width %u b %u lane %u: %u not %u", mode,
                                     mask, width, b, lane, out[2 * lane], e.value);
                        cr_assert_eq(out[2 * lane + 1], e.valid);
                    }
                }
}

Test(exec_warp, shuffles_in_many_warps)
{
    std::vector<uint32_t> out(2 * 1000);
    launch_ok(*load("shuffle"), {.block = {1000, 1, 1}}, out.data(), uint32_t{3}, ~0u, uint32_t{3},
              uint32_t{31});
    for (uint32_t i = 0; i < 1000; ++i) cr_assert_eq(out[2 * i], 3 * 11 + 5, "%u", i);
}

Test(exec_warp, votes)
{
    auto kernel = load("vote");
    for (uint32_t mask : kMasks)
        for (uint32_t yes : {0u, ~0u, 0x0000FFFFu, 1u, 0x12345678u}) {
            std::vector<uint32_t> out(128, 77);
            launch_ok(*kernel, {}, out.data(), mask, yes);
            uint32_t y = yes & mask;
            for (uint32_t lane = 0; lane < 32; ++lane) {
                if (!(mask >> lane & 1)) continue;
                cr_assert_eq(out[4 * lane], y == mask);
                cr_assert_eq(out[4 * lane + 1], y != 0);
                cr_assert_eq(out[4 * lane + 2], y == mask || y == 0);
                cr_assert_eq(out[4 * lane + 3], y);
            }
        }
}

Test(exec_warp, matches)
{
    auto kernel = load("match");
    for (uint32_t mask : kMasks)
        for (uint32_t modulus : {1u, 2u, 5u, 32u}) {
            std::vector<uint32_t> out(96, 77);
            launch_ok(*kernel, {}, out.data(), mask, modulus);
            uint32_t kinds = 0;
            for (uint32_t m = 0; m < modulus; ++m) {
                bool any = false;
                for (uint32_t lane = m; lane < 32; lane += modulus) any |= mask >> lane & 1;
                kinds += any;
            }
            for (uint32_t lane = 0; lane < 32; ++lane) {
                if (!(mask >> lane & 1)) continue;
                uint32_t same = 0;
                for (uint32_t l = lane % modulus; l < 32; l += modulus) same |= mask & 1u << l;
                cr_assert_eq(out[3 * lane], same);
                cr_assert_eq(out[3 * lane + 1], kinds == 1 ? mask : 0);
                cr_assert_eq(out[3 * lane + 2], kinds == 1);
            }
        }
}

Test(exec_warp, reduces)
{
    std::vector<uint32_t> in(32);
    for (uint32_t i = 0; i < 32; ++i) in[i] = i * 2654435761u ^ 0x55;
    auto kernel = load("redux");
    for (uint32_t mask : kMasks) {
        std::vector<uint32_t> out(256, 77);
        launch_ok(*kernel, {}, out.data(), in.data(), mask);
        int64_t min_s = INT64_MAX, max_s = INT64_MIN;
        uint64_t min_u = UINT64_MAX, max_u = 0;
        uint32_t sum = 0, all = ~0u, any = 0, odd = 0;
        for (uint32_t i = 0; i < 32; ++i) {
            if (!(mask >> i & 1)) continue;
            int64_t s = static_cast<int32_t>(in[i]);
            min_s = s < min_s ? s : min_s, max_s = s > max_s ? s : max_s;
            min_u = in[i] < min_u ? in[i] : min_u, max_u = in[i] > max_u ? in[i] : max_u;
            sum += in[i], all &= in[i], any |= in[i], odd ^= in[i];
        }
        uint32_t expected[] = {sum,
                               static_cast<uint32_t>(min_s),
                               static_cast<uint32_t>(max_s),
                               static_cast<uint32_t>(min_u),
                               static_cast<uint32_t>(max_u),
                               all,
                               any,
                               odd};
        for (uint32_t lane = 0; lane < 32; ++lane)
            for (uint32_t op = 0; op < 8 && (mask >> lane & 1); ++op)
                cr_assert_eq(out[8 * lane + op], expected[op], "mask %08x op %u", mask, op);
    }
}

Test(exec_warp, elects)
{
    auto kernel = load("elect");
    for (uint32_t mask : kMasks) {
        std::vector<uint32_t> out(2 * 32, 77);
        launch_ok(*kernel, {}, out.data(), mask);
        auto leader = static_cast<uint32_t>(__builtin_ctz(mask));
        for (uint32_t lane = 0; lane < 32; ++lane) {
            if (!(mask >> lane & 1)) continue;
            cr_assert_eq(out[2 * lane], leader);
            cr_assert_eq(out[2 * lane + 1], lane == leader);
        }
    }
}

Test(exec_warp, lanes_that_are_together_stay_together)
{
    std::vector<uint32_t> out(128, 0);
    launch_ok(*load("diverge"), {}, out.data());
    uint32_t third = 0;
    for (uint32_t lane = 0; lane < 32; lane += 3) third |= 1u << lane;
    for (uint32_t lane = 0; lane < 32; ++lane) {
        cr_assert_eq(out[4 * lane], ~0u);
        cr_assert_eq(out[4 * lane + 1], lane % 3 == 0 ? third : 0);
        cr_assert_eq(out[4 * lane + 2], lane % 3 == 0 ? 0 : ~third);
        cr_assert_eq(out[4 * lane + 3], ~0u, "lane %u: %08x", lane, out[4 * lane + 3]);
    }
}

Test(exec_warp, lanes_come_together_behind_a_loop)
{
    std::vector<uint32_t> out(64, 0);
    launch_ok(*load("loop_converges"), {}, out.data());
    for (uint32_t lane = 0; lane < 32; ++lane) {
        cr_assert_eq(out[2 * lane], ~0u << lane, "lane %u: %08x", lane, out[2 * lane]);
        cr_assert_eq(out[2 * lane + 1], ~0u, "lane %u: %08x", lane, out[2 * lane + 1]);
    }
}

Test(exec_warp, a_partial_warp_converges)
{
    std::vector<uint32_t> out(128, 0);
    launch_ok(*load("diverge"), {.block = {7, 1, 1}}, out.data());
    cr_assert_eq(out[0], 0x7Fu);
    cr_assert_eq(out[1], 0x49u);
    cr_assert_eq(out[6], 0x36u);
}

Test(exec_warp, a_spinning_lane_does_not_hold_the_others)
{
    uint32_t flag = 0;
    std::vector<uint32_t> out(32, 0);
    launch_ok(*load("converge_past_spinner"), {}, &flag, out.data());
    cr_assert_eq(flag, 31u);
    cr_assert_eq(out[1], ~1u);
}

Test(exec_warp, both_ways_of_a_branch_meet)
{
    std::vector<uint32_t> out(32, 77);
    launch_ok(*load("meet_across_branch"), {}, out.data());
    for (uint32_t lane = 0; lane < 32; ++lane) cr_assert_eq(out[lane], lane ^ 16);
}

Test(exec_warp, lanes_that_have_ended_are_not_waited_for)
{
    std::vector<uint32_t> out(32, 77);
    launch_ok(*load("shuffle_after_exit"), {}, out.data());
    for (uint32_t lane = 0; lane < 32; ++lane) cr_assert_eq(out[lane], lane < 16 ? 0xFFFFu : 77);
}

Test(exec_warp, a_lane_that_never_comes_is_reported)
{
    Fault fault = launch_fault(*load("missing_lane"), {});
    cr_assert_eq(fault.kind, FaultKind::deadlock);
    cr_assert(fault.text.find("lanes ffffffdf of warp 0 in a warp operation under mask ffffffff") !=
                  std::string::npos,
              "%s", fault.text.c_str());
}
