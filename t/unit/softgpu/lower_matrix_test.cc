// SPDX-License-Identifier: Apache-2.0
// Tensor core instructions, asynchronous copies and mbarrier objects.
#include "lower_support.h"

#include <cstdlib>

using namespace lower_test;

namespace {

uint16_t to_half(float f) { return std::bit_cast<uint16_t>(static_cast<_Float16>(f)); }
uint16_t to_bf16(float f) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(f) >> 16); }

// One warp; every lane has `in` registers of 32 bits in memory and gets `out`.
std::vector<uint32_t> warp(const std::string &instruction, const std::vector<uint32_t> &in,
                           unsigned per_lane_in, unsigned per_lane_out,
                           const std::string &reg = "b32")
{
    std::vector<uint32_t> out(32 * per_lane_out, 0xEEEEEEEE);
    std::string ptx = kHead +
                      ".shared .align 16 .b8 s[1024];\n.visible .entry k(.param .u64 in, .param "
                      ".u64 out) {\n .reg .b64 %p<4>; .reg .b32 %r<40>; .reg .b32 %i, %j; .reg ." +
                      reg +
                      " %x<40>;\n"
                      " ld.param.u64 %p0, [in]; ld.param.u64 %p1, [out]; mov.u32 %i, %tid.x; "
                      "mad.wide.u32 %p2, %i, " +
                      std::to_string(4 * per_lane_in) +
                      ", %p0;\n"
                      " mad.wide.u32 %p3, %i, " +
                      std::to_string(4 * per_lane_out) + ", %p1;\n";
    unsigned scale = reg.substr(1) == "64" ? 8 : 4;
    for (unsigned k = 0; k < per_lane_in * 4 / scale; ++k)
        ptx += " ld.global." + reg + " %x" + std::to_string(k) + ", [%p2+" +
               std::to_string(scale * k) + "];\n";
    ptx += instruction + "\n";
    for (unsigned k = 0; k < per_lane_out * 4 / scale; ++k)
        ptx += " st.global." + reg + " [%p3+" + std::to_string(scale * k) + "], %x" +
               std::to_string(20 + k) + ";\n";
    ptx += " ret;\n}\n";
    // Cut where the lanes meet, and each lane as a fiber.
    std::vector<uint32_t> as_fibers = out;
    for (bool fibers : {true, false}) {
        setenv("RGPU_SOFTGPU_FIBERS", fibers ? "1" : "0", 1);
        bool per_thread = !fibers;
        launch(ptx, {reinterpret_cast<uint64_t>(in.data()), address(fibers ? as_fibers : out)},
               {{1, 1, 1}, {32, 1, 1}}, &per_thread);
        if (instruction.find(".aligned") != std::string::npos) cr_assert_eq(per_thread, fibers);
    }
    cr_assert(out == as_fibers);
    return out;
}

float a_value(unsigned m, unsigned k)
{
    return static_cast<float>(static_cast<int>((m * 7 + k * 3) % 11) - 5);
}
float b_value(unsigned k, unsigned n)
{
    return static_cast<float>(static_cast<int>((k * 5 + n * 2) % 9) - 4);
}
float c_value(unsigned m, unsigned n) { return static_cast<float>((m + n) % 3); }
float want(unsigned m, unsigned n, unsigned depth)
{
    float s = c_value(m, n);
    for (unsigned k = 0; k < depth; ++k) s += a_value(m, k) * b_value(k, n);
    return s;
}

// The 16x8 result: c0, c1 in row `group`, c2, c3 eight rows below.
void expect_16x8(const std::vector<uint32_t> &out, unsigned depth, bool integer = false)
{
    for (unsigned lane = 0; lane < 32; ++lane)
        for (unsigned i = 0; i < 4; ++i) {
            unsigned row = lane / 4 + (i < 2 ? 0 : 8), column = lane % 4 * 2 + (i & 1);
            float got = integer ? static_cast<float>(static_cast<int32_t>(out[lane * 4 + i]))
                                : f32(out[lane * 4 + i]);
            cr_assert_eq(got, want(row, column, depth), "d[%u][%u]: got %g, want %g", row, column,
                         got, want(row, column, depth));
        }
}

}  // namespace

Test(lower_matrix, mma_m16n8k16_halves)
{
    for (bool bf : {false, true}) {
        auto h = [&](float f) -> uint32_t { return bf ? to_bf16(f) : to_half(f); };
        std::vector<uint32_t> in(32 * 10);
        for (unsigned lane = 0; lane < 32; ++lane) {
            unsigned group = lane / 4, t = lane % 4;
            uint32_t *r = &in[lane * 10];
            // PTX ISA, fragments for .f16 and .bf16 of m16n8k16.
            for (unsigned i = 0; i < 8; ++i) {
                unsigned row = i < 2 || (i >= 4 && i < 6) ? group : group + 8,
                         column = t * 2 + (i & 1) + (i >= 4 ? 8 : 0);
                r[i / 2] |= h(a_value(row, column)) << 16 * (i & 1);
            }
            for (unsigned i = 0; i < 4; ++i)
                r[4 + i / 2] |= h(b_value(t * 2 + (i & 1) + (i >= 2 ? 8 : 0), group))
                                << 16 * (i & 1);
            for (unsigned i = 0; i < 4; ++i)
                r[6 + i] = u32(bits(c_value(group + (i < 2 ? 0 : 8), t * 2 + (i & 1))));
        }
        std::string types = bf ? "f32.bf16.bf16.f32" : "f32.f16.f16.f32";
        expect_16x8(
            warp("mma.sync.aligned.m16n8k16.row.col." + types +
                     " {%x20,%x21,%x22,%x23}, {%x0,%x1,%x2,%x3}, {%x4,%x5}, {%x6,%x7,%x8,%x9};",
                 in, 10, 4),
            16);
    }
}

Test(lower_matrix, mma_m16n8k8_half_accumulates_in_half)
{
    std::vector<uint32_t> in(32 * 5);
    for (unsigned lane = 0; lane < 32; ++lane) {
        unsigned group = lane / 4, t = lane % 4;
        for (unsigned i = 0; i < 4; ++i) {
            in[lane * 5 + i / 2] |=
                uint32_t{to_half(a_value(group + (i < 2 ? 0 : 8), t * 2 + (i & 1)))}
                << 16 * (i & 1);
            in[lane * 5 + 3 + i / 2] |=
                uint32_t{to_half(c_value(group + (i < 2 ? 0 : 8), t * 2 + (i & 1)))}
                << 16 * (i & 1);
        }
        for (unsigned i = 0; i < 2; ++i)
            in[lane * 5 + 2] |= uint32_t{to_half(b_value(t * 2 + i, group))} << 16 * i;
    }
    auto out = warp("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%x20,%x21}, {%x0,%x1}, "
                    "{%x2}, {%x3,%x4};",
                    in, 5, 2);
    for (unsigned lane = 0; lane < 32; ++lane)
        for (unsigned i = 0; i < 4; ++i)
            cr_assert_eq(out[lane * 2 + i / 2] >> 16 * (i & 1) & 0xFFFF,
                         to_half(want(lane / 4 + (i < 2 ? 0 : 8), lane % 4 * 2 + (i & 1), 8)));
}

Test(lower_matrix, mma_tf32_and_s8)
{
    std::vector<uint32_t> in(32 * 10), bytes(32 * 10);
    for (unsigned lane = 0; lane < 32; ++lane) {
        unsigned group = lane / 4, t = lane % 4;
        for (unsigned i = 0; i < 4; ++i) {
            in[lane * 10 + i] = u32(bits(a_value(group + (i & 1) * 8, t + (i >= 2 ? 4 : 0))));
            in[lane * 10 + 6 + i] = u32(bits(c_value(group + (i < 2 ? 0 : 8), t * 2 + (i & 1))));
            bytes[lane * 10 + 6 + i] =
                static_cast<uint32_t>(c_value(group + (i < 2 ? 0 : 8), t * 2 + (i & 1)));
        }
        for (unsigned i = 0; i < 2; ++i)
            in[lane * 10 + 4 + i] = u32(bits(b_value(t + 4 * i, group)));
        for (unsigned i = 0; i < 16; ++i) {
            unsigned row = i < 4 || (i >= 8 && i < 12) ? group : group + 8,
                     column = t * 4 + (i & 3) + (i >= 8 ? 16 : 0);
            bytes[lane * 10 + i / 4] |=
                uint32_t{static_cast<uint8_t>(static_cast<int>(a_value(row, column)))}
                << 8 * (i & 3);
        }
        for (unsigned i = 0; i < 8; ++i)
            bytes[lane * 10 + 4 + i / 4] |= uint32_t{static_cast<uint8_t>(static_cast<int>(b_value(
                                                t * 4 + (i & 3) + (i >= 4 ? 16 : 0), group)))}
                                            << 8 * (i & 3);
    }
    const std::string registers =
        " {%x20,%x21,%x22,%x23}, {%x0,%x1,%x2,%x3}, {%x4,%x5}, {%x6,%x7,%x8,%x9};";
    expect_16x8(warp("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32" + registers, in, 10, 4),
                8);
    expect_16x8(warp("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32" + registers, bytes, 10, 4),
                32, true);
}

Test(lower_matrix, mma_fp8)
{
    // Small whole numbers: a sign, an exponent, and so many bits behind the leading one.
    auto fp8 = [](float v, int mantissa, int bias) -> uint32_t {
        if (v == 0) return 0;
        int e = 0;
        const float m = std::frexp(std::fabs(v), &e);  // m * 2^e, m from 0.5 to 1
        return (v < 0 ? 0x80u : 0u) | static_cast<uint32_t>(e - 1 + bias) << mantissa |
               static_cast<uint32_t>((m * 2 - 1) * static_cast<float>(1 << mantissa));
    };
    for (bool narrow : {false, true}) {
        auto encode = [&](float v) { return narrow ? fp8(v, 2, 15) : fp8(v, 3, 7); };
        std::vector<uint32_t> in(32 * 10);
        for (unsigned lane = 0; lane < 32; ++lane) {
            unsigned group = lane / 4, t = lane % 4;
            for (unsigned i = 0; i < 16; ++i) {
                unsigned row = i < 4 || (i >= 8 && i < 12) ? group : group + 8,
                         column = t * 4 + (i & 3) + (i >= 8 ? 16 : 0);
                in[lane * 10 + i / 4] |= encode(a_value(row, column)) << 8 * (i & 3);
            }
            for (unsigned i = 0; i < 8; ++i)
                in[lane * 10 + 4 + i / 4] |=
                    encode(b_value(t * 4 + (i & 3) + (i >= 4 ? 16 : 0), group)) << 8 * (i & 3);
            for (unsigned i = 0; i < 4; ++i)
                in[lane * 10 + 6 + i] =
                    u32(bits(c_value(group + (i < 2 ? 0 : 8), t * 2 + (i & 1))));
        }
        const std::string type = narrow ? "e5m2" : "e4m3";
        expect_16x8(
            warp("mma.sync.aligned.m16n8k32.row.col.f32." + type + "." + type +
                     ".f32 {%x20,%x21,%x22,%x23}, {%x0,%x1,%x2,%x3}, {%x4,%x5}, {%x6,%x7,%x8,%x9};",
                 in, 10, 4),
            32);
    }
}

Test(lower_matrix, mma_f64)
{
    std::vector<uint32_t> in(32 * 8);
    for (unsigned lane = 0; lane < 32; ++lane) {
        double v[4] = {a_value(lane / 4, lane % 4), b_value(lane % 4, lane / 4),
                       c_value(lane / 4, lane % 4 * 2), c_value(lane / 4, lane % 4 * 2 + 1)};
        memcpy(&in[lane * 8], v, sizeof v);
    }
    auto out = warp(
        "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%x20,%x21}, {%x0}, {%x1}, {%x2,%x3};", in,
        8, 4, "f64");
    for (unsigned lane = 0; lane < 32; ++lane) {
        double d[2];
        memcpy(d, &out[lane * 4], sizeof d);
        for (unsigned i = 0; i < 2; ++i) cr_assert_eq(d[i], want(lane / 4, lane % 4 * 2 + i, 4));
    }
}

// 64 rows of 8 halves, row r of matrix i holding 100*i + 8*r + column.
Test(lower_matrix, ldmatrix_stmatrix_movmatrix)
{
    std::string fill =
        "mov.u32 %r0, s; shl.b32 %r1, %i, 4; add.u32 %r2, %r0, %r1; shr.u32 %r3, %i, 3; mul.lo.u32 "
        "%r3, %r3, 100; and.b32 %r4, %i, 7; shl.b32 %r4, %r4, 3; add.u32 %r3, %r3, %r4;\n"
        "{ .reg .b32 w, n, at; mov.u32 n, 0; LOOP: add.u32 w, %r3, n; shl.b32 at, n, 1; add.u32 "
        "at, at, %r2; st.shared.u16 [at], w; add.u32 n, n, 1; .reg .pred q; setp.lt.u32 q, n, 8; "
        "@q bra LOOP; } bar.warp.sync -1;\n";
    for (bool transposed : {false, true}) {
        auto out = warp(fill + "ldmatrix.sync.aligned.m8n8.x4" + (transposed ? ".trans" : "") +
                            ".shared.b16 {%x20,%x21,%x22,%x23}, [%r2];",
                        {}, 0, 4);
        for (unsigned lane = 0; lane < 32; ++lane)
            for (unsigned i = 0; i < 4; ++i)
                for (unsigned j = 0; j < 2; ++j) {
                    unsigned row = lane / 4, column = lane % 4 * 2 + j;
                    if (transposed) std::swap(row, column);
                    cr_assert_eq(out[lane * 4 + i] >> 16 * j & 0xFFFF, 100 * i + 8 * row + column,
                                 "lane %u register %u", lane, i);
                }
    }
    auto out = warp(fill + "ldmatrix.sync.aligned.m8n8.x1.shared::cta.b16 {%x20}, [%r2]; "
                           "movmatrix.sync.aligned.m8n8.trans.b16 %x21, %x20;\n"
                           "add.u32 %r5, %r2, 512; stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 "
                           "[%r5], {%x21}; ld.shared.u32 %x22, [%r5];",
                    {}, 0, 3);
    for (unsigned lane = 0; lane < 32; ++lane)
        for (unsigned j = 0; j < 2; ++j)
            cr_assert_eq(out[lane * 3 + 1] >> 16 * j & 0xFFFF, 8 * (lane % 4 * 2 + j) + lane / 4);
    for (unsigned lane = 0; lane < 8; ++lane)
        cr_assert_eq(out[lane * 3 + 2], (8 * lane + 1) << 16 | 8 * lane,
                     "transposed twice it is the matrix");
}

Test(lower_matrix, asynchronous_copies)
{
    std::vector<uint32_t> in(32 * 4);
    for (unsigned i = 0; i < in.size(); ++i) in[i] = i + 1;
    auto out = warp("mov.u32 %r0, s; shl.b32 %r1, %i, 4; add.u32 %r2, %r0, %r1; "
                    "cp.async.cg.shared.global [%r2], [%p2], 16; add.u32 %r3, %r2, 512;\n"
                    "cp.async.ca.shared.global [%r3], [%p2], 8, 4; .reg .pred q; setp.ne.u32 q, "
                    "%i, 0; cp.async.ca.shared.global [%r3+8], [%p2+8], 4, q;\n"
                    "cp.async.commit_group; cp.async.wait_group 0; cp.async.wait_all; "
                    "ld.shared.v4.u32 {%x20, %x21, %x22, %x23}, [%r2]; ld.shared.v2.u32 {%x24, "
                    "%x25}, [%r3]; ld.shared.u32 %x26, [%r3+8];",
                    in, 4, 7);
    for (unsigned lane = 0; lane < 32; ++lane) {
        uint32_t first = lane * 4 + 1;
        uint32_t expected[] = {first, first + 1, first + 2,           first + 3,
                               first, 0,         lane ? 0 : first + 2};
        for (unsigned i = 0; i < 7; ++i)
            cr_assert_eq(out[lane * 7 + i], expected[i], "lane %u value %u", lane, i);
    }
}

// 64 threads go through three phases; each sees in a phase what all wrote in the one before.
Test(lower_matrix, mbarrier_phases)
{
    std::vector<uint64_t> out(64);
    launch(
        kHead +
            ".shared .align 8 .b64 bar; .shared .align 4 .b8 v[512];\n.visible .entry k(.param "
            ".u64 out) { .reg .b64 %p<4>; .reg .b32 %r<20>; .reg .pred %q<6>; .reg .b64 %state;\n"
            "ld.param.u64 %p0, [out]; mov.u32 %r0, %tid.x; setp.eq.u32 %q0, %r0, 0; mov.u32 %r1, "
            "bar; @%q0 mbarrier.init.shared.b64 [%r1], 64; bar.sync 0;\n"
            "mov.u32 %r2, v; shl.b32 %r3, %r0, 2; add.u32 %r4, %r2, %r3; mov.u32 %r5, 0; mov.u32 "
            "%r6, 0; xor.b32 %r7, %r3, 252; add.u32 %r8, %r2, %r7; mov.u32 %r10, 0;\n"
            "AGAIN: mad.lo.u32 %r9, %r5, 1000, %r0; st.shared.u32 [%r4], %r9;\n"
            "mbarrier.arrive.shared::cta.b64 %state, [%r1];\n"
            "WAIT: mbarrier.try_wait.shared.b64 %q1, [%r1], %state; @!%q1 bra WAIT;\n"
            "ld.shared.u32 %r9, [%r8]; add.u32 %r10, %r10, %r9;\n"
            "mbarrier.arrive.shared.b64 _, [%r1]; { WAIT: mbarrier.test_wait.parity.shared.b64 "
            "%q1, [%r1], 1; @!%q1 bra WAIT; }\n"
            "add.u32 %r5, %r5, 1; setp.lt.u32 %q2, %r5, 3; @%q2 bra AGAIN;\n"
            "mul.wide.u32 %p1, %r0, 8; add.u64 %p2, %p0, %p1; cvt.u64.u32 %p3, %r10; st.global.u64 "
            "[%p2], %p3; ret; }",
        {address(out)}, {{1, 1, 1}, {64, 1, 1}});
    for (uint64_t i = 0; i < 64; ++i)
        cr_assert_eq(out[i], 3 * (i ^ 63) + 3000, "thread %lu: %lu", i, out[i]);
}

Test(lower_matrix, bulk_copy_completes_a_transaction)
{
    std::vector<uint32_t> in(64), out(32);
    for (unsigned i = 0; i < 64; ++i) in[i] = 3 * i;
    launch(kHead +
               ".shared .align 8 .b64 bar; .shared .align 16 .b8 v[256];\n.visible .entry k(.param "
               ".u64 in, .param .u64 out) { .reg .b64 %p<4>; .reg .b32 %r<9>; .reg .pred %q<3>; "
               ".reg .b64 %state;\n"
               "ld.param.u64 %p0, [in]; ld.param.u64 %p1, [out]; mov.u32 %r0, %tid.x; setp.eq.u32 "
               "%q0, %r0, 0; mov.u32 %r1, bar; mov.u32 %r2, v;\n"
               "@%q0 mbarrier.init.shared.b64 [%r1], 1; bar.sync 0; @%q0 "
               "mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 256;\n"
               "@%q0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], "
               "[%p0], 256, [%r1];\n"
               "W: mbarrier.try_wait.parity.shared::cta.b64 %q1, [%r1], 0; @!%q1 bra W;\n"
               "shl.b32 %r3, %r0, 2; add.u32 %r4, %r2, %r3; ld.shared.u32 %r5, [%r4+128]; "
               "mul.wide.u32 %p2, %r0, 4; add.u64 %p3, %p1, %p2; st.global.u32 [%p3], %r5; ret; }",
           {address(in), address(out)}, {{1, 1, 1}, {32, 1, 1}});
    for (unsigned i = 0; i < 32; ++i) cr_assert_eq(out[i], 3 * (i + 32));
}
