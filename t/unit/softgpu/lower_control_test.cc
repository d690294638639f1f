// SPDX-License-Identifier: Apache-2.0
// Branches, calls, memory spaces, atomics, barriers and warp operations: small kernels with known
// results.
#include "lower_support.h"

#include <algorithm>
#include <numeric>

using namespace lower_test;

namespace {

// A kernel with one pointer; %i is the thread's number in the block, %o the address of its 64-bit
// result.
std::string kernel(const std::string &body, const std::string &before = "")
{
    return kHead + before +
           ".visible .entry k(.param .u64 out)\n{\n .reg .b64 %o<4>; .reg .b32 %i; .reg .b64 "
           "%rd<40>; .reg .b32 %r<40>;\n"
           " .reg .pred %p<20>; .reg .f32 %f<20>; .reg .f64 %fd<10>; .reg .b16 %h<10>;\n"
           " mov.u32 %i, %tid.x; ld.param.u64 %o1, [out]; cvta.to.global.u64 %o2, %o1; "
           "mul.wide.u32 %o3, %i, 8;\n"
           " add.s64 %o0, %o2, %o3;\n" +
           body + "\n ret;\n}\n";
}

std::vector<uint64_t> run_threads(const std::string &ptx, uint32_t threads,
                                  bool *per_thread = nullptr, uint32_t dynamic = 0)
{
    std::vector<uint64_t> out(threads, 0xEEEEEEEEEEEEEEEE);
    launch(ptx, {address(out)}, {{1, 1, 1}, {threads, 1, 1}, dynamic}, per_thread);
    return out;
}

void expect(const std::vector<uint64_t> &got, uint64_t (*want)(uint64_t))
{
    for (size_t i = 0; i < got.size(); ++i)
        cr_assert_eq(got[i], want(i), "thread %zu: got %#lx, want %#lx", i, got[i], want(i));
}

}  // namespace

Test(lower_control, loop_with_divergent_trip_count)
{
    bool per_thread = true;
    auto out = run_threads(
        kernel(
            "mov.u64 %rd0, 0; mov.u32 %r0, 0;\n"
            "LOOP: setp.ge.u32 %p0, %r0, %i; @%p0 bra DONE;\n"
            "cvt.u64.u32 %rd1, %r0; add.u64 %rd0, %rd0, %rd1; add.u32 %r0, %r0, 1; bra.uni LOOP;\n"
            "DONE: st.global.u64 [%o0], %rd0;"),
        100, &per_thread);
    expect(out, [](uint64_t i) { return i * (i - 1) / 2; });
    cr_assert(!per_thread, "a kernel without barriers needs no fibers");
}

Test(lower_control, table_of_branches)
{
    auto out = run_threads(kernel("and.b32 %r0, %i, 3; mov.u64 %rd0, 9;\n"
                                  "ts: .branchtargets A, B, C, D;\n brx.idx %r0, ts;\n"
                                  "A: mov.u64 %rd0, 10; bra E;\nB: mov.u64 %rd0, 20; bra E;\nC: "
                                  "mov.u64 %rd0, 30;\nD: add.u64 %rd0, %rd0, 1;\n"
                                  "E: st.global.u64 [%o0], %rd0;"),
                           8);
    expect(out, [](uint64_t i) { return std::vector<uint64_t>{10, 20, 31, 10}[i & 3]; });
}

// The same label twice, as inline assembly in braces gives.
Test(lower_control, labels_are_scoped)
{
    std::string spin = "{ .reg .pred q; .reg .b32 n; mov.u32 n, 3;\n LAB: sub.u32 n, n, 1; add.u32 "
                       "%r0, %r0, 1; setp.ne.u32 q, n, 0; @q bra LAB; }\n";
    auto out = run_threads(kernel("mov.u32 %r0, 0;\n" + spin + spin +
                                  "cvt.u64.u32 %rd0, %r0; st.global.u64 [%o0], %rd0;"),
                           4);
    expect(out, [](uint64_t) -> uint64_t { return 6; });
}

static const std::string kFunctions =
    ".func (.param .b32 r) twice(.param .b32 x) { .reg .b32 %a; ld.param.b32 %a, [x]; shl.b32 %a, "
    "%a, 1; st.param.b32 [r], %a; ret; }\n"
    ".func (.param .b32 r) next(.param .b32 x) { .reg .b32 %a; ld.param.b32 %a, [x]; add.s32 %a, "
    "%a, 1; st.param.b32 [r+0], %a; ret; }\n"
    ".func (.reg .b32 r) thrice(.reg .b32 x) { mul.lo.s32 r, x, 3; ret; }\n"
    ".func (.param .align 8 .b8 r[16]) swapped(.param .align 8 .b8 x[16]) { .reg .b64 %a, %b; "
    "ld.param.v2.b64 {%a, %b}, [x]; st.param.b64 [r], %b; st.param.b64 [r+8], %a; ret; }\n"
    ".func (.param .b64 r) factorial(.param .b64 n) { .reg .b64 %a, %b; .reg .pred %p; "
    "ld.param.b64 %a, [n]; setp.gt.u64 %p, %a, 1; @%p bra GO; st.param.b64 [r], 1; ret;\n"
    " GO: sub.u64 %b, %a, 1; { .param .b64 p0; .param .b64 q0; st.param.b64 [p0], %b; call (q0), "
    "factorial, (p0); ld.param.b64 %b, [q0]; } mul.lo.u64 %a, %a, %b; st.param.b64 [r], %a; ret; "
    "}\n"
    ".func leave(.param .b32 x) { .reg .b32 %a; .reg .pred %p; ld.param.b32 %a, [x]; setp.lt.u32 "
    "%p, %a, 3; @%p exit; ret; }\n"
    ".global .align 8 .u64 table[2] = {twice, next};\n";

Test(lower_control, direct_calls)
{
    auto out = run_threads(
        kernel("{ .param .b32 p0; .param .b32 r0; st.param.b32 [p0+0], %i; call.uni (r0), twice, "
               "(p0); ld.param.b32 %r0, [r0+0]; }\n"
               "call (%r1), thrice, (%r0); cvt.u64.u32 %rd0, %r1; st.global.u64 [%o0], %rd0;",
               kFunctions),
        40);
    expect(out, [](uint64_t i) { return 6 * i; });
}

Test(lower_control, aggregates_and_recursion)
{
    auto out =
        run_threads(kernel("cvt.u64.u32 %rd0, %i; { .param .align 8 .b8 p0[16]; .param .align 8 "
                           ".b8 r0[16]; st.param.v2.b64 [p0], {%rd0, 1000};\n"
                           "call.uni (r0), swapped, (p0); ld.param.v2.b64 {%rd1, %rd2}, [r0]; } "
                           "sub.u64 %rd3, %rd1, %rd2;\n"
                           "and.b64 %rd4, %rd0, 7; { .param .b64 p0; .param .b64 r0; st.param.b64 "
                           "[p0], %rd4; call (r0), factorial, (p0); ld.param.b64 %rd5, [r0]; }\n"
                           "add.u64 %rd3, %rd3, %rd5; st.global.u64 [%o0], %rd3;",
                           kFunctions),
                    16);
    expect(out, [](uint64_t i) {
        uint64_t f = 1;
        for (uint64_t k = 2; k <= (i & 7); ++k) f *= k;
        return 1000 - i + f;
    });
}

Test(lower_control, indirect_calls_through_memory_and_by_name)
{
    auto out = run_threads(kernel("and.b32 %r0, %i, 1; mul.wide.u32 %rd0, %r0, 8; mov.u64 %rd1, "
                                  "table; add.u64 %rd1, %rd1, %rd0; ld.global.u64 %rd2, [%rd1];\n"
                                  "setp.gt.u32 %p0, %i, 5; @%p0 mov.u64 %rd2, next;\n"
                                  "{ .param .b32 p0; .param .b32 r0; st.param.b32 [p0], %i;\n "
                                  "proto: .callprototype (.param .b32 _) _ (.param .b32 _);\n"
                                  "call (r0), %rd2, (p0), proto; ld.param.b32 %r1, [r0]; } "
                                  "cvt.u64.u32 %rd3, %r1; st.global.u64 [%o0], %rd3;",
                                  kFunctions),
                           10);
    expect(out, [](uint64_t i) { return i > 5 || (i & 1) ? i + 1 : 2 * i; });
}

Test(lower_control, indirect_calls_by_a_list_of_functions)
{
    auto out = run_threads(
        kernel("list: .calltargets twice, next; and.b32 %r0, %i, 1; mul.wide.u32 %rd0, %r0, 8; "
               "mov.u64 %rd1, table; add.u64 %rd1, %rd1, %rd0; ld.global.u64 %rd2, [%rd1];\n"
               "{ .param .b32 p0; .param .b32 r0; st.param.b32 [p0], %i; call (r0), %rd2, (p0), "
               "list; ld.param.b32 %r1, [r0]; }\n"
               " cvt.u64.u32 %rd3, %r1; st.global.u64 [%o0], %rd3;",
               kFunctions),
        10);
    expect(out, [](uint64_t i) { return i & 1 ? i + 1 : 2 * i; });
}

Test(lower_control, exit_inside_a_function_ends_the_thread)
{
    auto out = run_threads(kernel("mov.u64 %rd0, 1; st.global.u64 [%o0], %rd0; { .param .b32 p0; "
                                  "st.param.b32 [p0], %i; call leave, (p0); }\n"
                                  "mov.u64 %rd0, 2; st.global.u64 [%o0], %rd0;",
                                  kFunctions),
                           6);
    expect(out, [](uint64_t i) -> uint64_t { return i < 3 ? 1 : 2; });
}

Test(lower_control, local_memory_and_generic_addresses)
{
    auto out = run_threads(
        kernel(
            ".local .align 8 .b8 depot[64]; mov.u64 %rd0, depot; cvta.local.u64 %rd1, %rd0; "
            "cvt.u64.u32 %rd2, %i;\n"
            "and.b32 %r0, %i, 7; mul.wide.u32 %rd3, %r0, 8; add.u64 %rd4, %rd0, %rd3; st.local.u64 "
            "[%rd4], %rd2;\n"
            "add.u64 %rd5, %rd1, %rd3; ld.u64 %rd6, [%rd5]; isspacep.local %p0, %rd5; "
            "isspacep.global %p1, %o0; isspacep.shared %p2, %rd5;\n"
            "selp.b64 %rd7, 100, 0, %p0; selp.b64 %rd8, 1000, 0, %p1; selp.b64 %rd9, 10000, 0, "
            "%p2; add.u64 %rd6, %rd6, %rd7; add.u64 %rd6, %rd6, %rd8; add.u64 %rd6, %rd6, %rd9;\n"
            "st.global.u64 [%o0], %rd6;"),
        33);
    expect(out, [](uint64_t i) { return i + 1100; });
}

Test(lower_control, globals_constants_and_vectors)
{
    auto m = parse(kernel("ld.const.u32 %r0, [c+4]; ld.global.v4.u32 {%r1, %r2, _, %r4}, [g]; "
                          "add.u32 %r0, %r0, %r1; add.u32 %r0, %r0, %r2; add.u32 %r0, %r0, %r4;\n"
                          "ld.global.u64 %rd0, [pointer]; ld.global.u32 %r5, [%rd0]; add.u32 %r0, "
                          "%r0, %r5; ld.global.s8 %r6, [bytes+1]; add.s32 %r0, %r0, %r6;\n"
                          "ld.global.u8 %h0, [bytes+1]; cvt.u32.u16 %r7, %h0; add.u32 %r0, %r0, "
                          "%r7; cvt.u64.u32 %rd1, %r0; st.global.u64 [%o0], %rd1;",
                          ".const .align 4 .u32 c[3] = {1, 20, 3};\n.global .align 16 .b32 g[4] = "
                          "{100, 1000, 7, 10000};\n"
                          ".global .align 8 .u64 pointer = generic(g)+4;\n.global .b8 bytes[2] = "
                          "{1, 254};\n.global .align 4 .f32 pi = 0f40490FDB;\n"
                          ".global .align 1 .b8 part[2] = {0xFF(g), 0xFF00(g)};\n"));
    Globals globals(*m);
    std::vector<uint64_t> out(1);
    auto fault = launch(*m, globals, "k", {address(out)}, {});
    cr_assert(!fault);
    cr_assert_eq(out[0], 20 + 11100 + 1000 - 2 + 254);
    uint64_t g = globals.address("g");
    cr_assert_eq(memcmp(globals.memory["part"].data(), &g, 2), 0);
    cr_assert_eq(static_cast<uint32_t>(globals.memory["pi"][0]), 0x40490FDB);
}

Test(lower_control, shared_memory_and_barriers)
{
    bool per_thread = false;
    auto out = run_threads(
        kernel("mov.u32 %r0, a; shl.b32 %r1, %i, 2; add.u32 %r2, %r0, %r1; st.shared.u32 [%r2], "
               "%i; mov.u32 %r3, dyn; add.u32 %r4, %r3, %r1; st.shared.u32 [%r4+0], 7;\n"
               "bar.sync 0; xor.b32 %r5, %r1, 508; add.u32 %r6, %r0, %r5; ld.shared.u32 %r7, "
               "[%r6]; cvta.shared.u64 %rd0, dyn; ld.u32 %r8, [%rd0];\n"
               "isspacep.shared %p0, %rd0; cvta.to.shared.u64 %rd1, %rd0; cvt.u32.u64 %r9, %rd1; "
               "sub.u32 %r9, %r9, %r3; selp.b32 %r10, 100, 0, %p0;\n"
               "add.u32 %r7, %r7, %r8; add.u32 %r7, %r7, %r9; add.u32 %r7, %r7, %r10; cvt.u64.u32 "
               "%rd2, %r7; st.global.u64 [%o0], %rd2;",
               ".shared .align 4 .b8 a[512];\n.extern .shared .align 16 .b8 dyn[];\n"),
        128, &per_thread, 512);
    expect(out, [](uint64_t i) { return (i ^ 127) + 107; });
    cr_assert(!per_thread, "a kernel whose barriers are its own needs no fibers");
}

Test(lower_control, barrier_reductions)
{
    auto out = run_threads(
        kernel("setp.lt.u32 %p0, %i, 10; bar.red.popc.u32 %r0, 0, %p0; bar.red.and.pred %p1, 0, "
               "%p0; barrier.cta.red.or.pred %p2, 0, 64, !%p0;\n"
               "selp.b32 %r1, 100, 0, %p1; selp.b32 %r2, 1000, 0, %p2; add.u32 %r0, %r0, %r1; "
               "add.u32 %r0, %r0, %r2; cvt.u64.u32 %rd0, %r0; st.global.u64 [%o0], %rd0;"),
        64);
    expect(out, [](uint64_t) -> uint64_t { return 1010; });
}

Test(lower_control, warp_operations)
{
    auto out =
        run_threads(kernel("mov.b32 %r0, %i; shfl.sync.down.b32 %r1|%p0, %r0, 4, 31, -1; "
                           "shfl.sync.bfly.b32 %r2, %r0, 1, 31, -1; shfl.sync.idx.b32 %r3, %r0, 5, "
                           "0x181F, -1; shfl.sync.up.b32 %r4|%p1, %r0, 1, 0, -1;\n"
                           "setp.lt.u32 %p2, %i, 40; vote.sync.ballot.b32 %r5, %p2, -1; "
                           "vote.sync.all.pred %p3, %p2, -1; vote.sync.any.pred %p4, !%p2, -1;\n"
                           "and.b32 %r6, %i, 3; match.any.sync.b32 %r7, %r6, -1; "
                           "redux.sync.add.s32 %r8, %r0, -1; redux.sync.max.u32 %r9, %r0, -1; "
                           "activemask.b32 %r10; elect.sync %r11|%p5, -1; bar.warp.sync -1;\n"
                           // one number of all
                           "selp.b32 %r12, 1, 0, %p0; selp.b32 %r13, 2, 0, %p1; selp.b32 %r14, 4, "
                           "0, %p3; selp.b32 %r15, 8, 0, %p4; selp.b32 %r16, 16, 0, %p5;\n"
                           "or.b32 %r12, %r12, %r13; or.b32 %r12, %r12, %r14; or.b32 %r12, %r12, "
                           "%r15; or.b32 %r12, %r12, %r16;\n"
                           "mov.u32 %r17, 0; mad.lo.u32 %r17, %r17, 31, %r1; mad.lo.u32 %r17, "
                           "%r17, 31, %r2; mad.lo.u32 %r17, %r17, 31, %r3; mad.lo.u32 %r17, %r17, "
                           "31, %r4; mad.lo.u32 %r17, %r17, 31, %r5;\n"
                           "mad.lo.u32 %r17, %r17, 31, %r7; mad.lo.u32 %r17, %r17, 31, %r8; "
                           "mad.lo.u32 %r17, %r17, 31, %r9; mad.lo.u32 %r17, %r17, 31, %r10; "
                           "mad.lo.u32 %r17, %r17, 31, %r11; mad.lo.u32 %r17, %r17, 31, %r12;\n"
                           "mov.u32 %r18, %laneid; mad.lo.u32 %r17, %r17, 31, %r18; mov.u32 %r18, "
                           "%lanemask_lt; mad.lo.u32 %r17, %r17, 31, %r18; mov.u32 %r18, %warpid; "
                           "mad.lo.u32 %r17, %r17, 31, %r18;\n"
                           "cvt.u64.u32 %rd0, %r17; st.global.u64 [%o0], %rd0;"),
                    64);
    expect(out, [](uint64_t n) -> uint64_t {
        uint32_t i = u32(n), lane = i % 32, base = i - lane;
        uint32_t h = 0;
        auto add = [&](uint32_t v) { h = h * 31 + v; };
        add(lane + 4 < 32 ? i + 4 : i);
        add(i ^ 1);
        add(base + (lane & 24) + 5);  // segments of 8 lanes
        add(lane ? i - 1 : i);
        add(base == 0 ? ~0u : 0xFF);
        add(0x11111111u << (i & 3));
        add(32 * base + 496);
        add(base + 31);
        add(~0u);
        add(0);
        add((lane + 4 < 32 ? 1 : 0) | (lane ? 2 : 0) | (base == 0 ? 4 : 0) | (base ? 8 : 0) |
            (lane == 0 ? 16 : 0));
        add(lane);
        add((1u << lane) - 1);
        add(i / 32);
        return h;
    });
}

Test(lower_control, older_warp_operations_and_alloca)
{
    auto out = run_threads(
        kernel("shfl.bfly.b32 %r0, %i, 3, 31; setp.lt.u32 %p0, %i, 7; vote.ballot.b32 %r1, %p0; "
               "stacksave.u64 %rd0; mov.u64 %rd1, 64; alloca.u64 %rd2, %rd1, 16;\n"
               "st.local.u32 [%rd2+4], %r0; ld.local.u32 %r2, [%rd2+4]; stackrestore.u64 %rd0; "
               "mad.lo.u32 %r3, %r1, 100, %r2; cvt.u64.u32 %rd3, %r3; st.global.u64 [%o0], %rd3;"),
        32);
    expect(out, [](uint64_t i) { return 12700 + (i ^ 3); });
}

Test(lower_control, atomics)
{
    struct Case {
        const char *instruction;
        uint64_t start;
        uint64_t after;  // of 64 threads that bring 1 + their number
    };
    static const Case cases[] = {
        {"red.global.add.u32 [%rd0], %r0;", 5, 5 + 64 * 65 / 2},
        {"atom.global.add.u64 %rd2, [%rd0], %rd1;", ~uint64_t{0}, 64 * 65 / 2 - 1},
        {"atom.add.s32 %r1, [%rd0], %r0;", 0, 64 * 65 / 2},
        {"atom.global.min.s32 %r1, [%rd0], %r0;", 40, 1},
        {"atom.global.max.u32 %r1, [%rd0], %r0;", 40, 64},
        {"red.relaxed.gpu.global.max.s64 [%rd0], %rd1;", 3, 64},
        {"atom.global.and.b32 %r1, [%rd0], %r0;", 0xFF, 0},
        {"atom.global.or.b32 %r1, [%rd0], %r0;", 0x100, 0x17F},
        {"red.global.xor.b32 [%rd0], %r0;", 0, 64},
        {"atom.global.inc.u32 %r1, [%rd0], 9;", 0, 4},
        {"atom.acq_rel.sys.global.dec.u32 %r1, [%rd0], 9;", 0, 6},
        {"red.global.add.f32 [%rd0], %f0;", 0, 0x45020000},
        {"red.global.add.f64 [%rd0], %fd0;", 0, 0x40A0400000000000},
        {"red.global.add.noftz.f16x2 [%rd0], %r2;", 0, 0x54005400},
        {"atom.global.add.noftz.bf16 %h0, [%rd0], %h1;", 0, 0x4280},
        {"red.global.add.v2.f32 [%rd0], {%f0, %f0};", 0, 0x4502000045020000},
        {"atom.exch.b64 %rd2, [%rd0], 77;", 1, 77},
        {"atom.global.cas.b32 %r1, [%rd0], 3, 9;", 3, 9},
    };
    for (const Case &c : cases) {
        uint64_t memory[2] = {c.start, 0};
        std::vector<uint64_t> out(64);
        launch(kHead +
                   ".visible .entry k(.param .u64 m) { .reg .b64 %rd<4>; .reg .b32 %r<4>; .reg "
                   ".f32 %f0; .reg .f64 %fd0; .reg .b16 %h<2>; ld.param.u64 %rd0, [m];\n"
                   "mov.u32 %r0, %tid.x; add.u32 %r0, %r0, 1; cvt.u64.u32 %rd1, %r0; "
                   "cvt.rn.f32.u32 %f0, %r0; cvt.rn.f64.u32 %fd0, %r0; mov.u32 %r2, 0x3C003C00; "
                   "mov.b16 %h1, 0x3F80;\n" +
                   c.instruction + "\n ret; }",
               {reinterpret_cast<uint64_t>(memory)}, {{1, 1, 1}, {64, 1, 1}});
        cr_expect_eq(memory[0], c.after, "%s: %#lx, want %#lx", c.instruction, memory[0], c.after);
    }
}

Test(lower_control, atomics_in_shared_memory)
{
    auto out = run_threads(kernel("mov.u32 %r0, a; setp.eq.u32 %p0, %i, 0; @%p0 st.shared.u32 "
                                  "[%r0], 0; bar.sync 0; atom.shared.add.u32 %r1, [%r0], 1;\n"
                                  "bar.sync 0; ld.shared.u32 %r2, [%r0]; cvt.u64.u32 %rd0, %r2; "
                                  "st.global.u64 [%o0], %rd0;",
                                  ".shared .u32 a;\n"),
                           96);
    expect(out, [](uint64_t) -> uint64_t { return 96; });
}

Test(lower_control, spin_lock_between_threads_of_a_warp)
{
    uint64_t memory[2] = {0, 0};
    bool per_thread = false;
    launch(
        kHead +
            ".visible .entry k(.param .u64 m) { .reg .b64 %rd<4>; .reg .b32 %r<4>; .reg .pred %p; "
            "ld.param.u64 %rd0, [m];\n"
            "AGAIN: atom.global.cas.b32 %r0, [%rd0], 0, 1; setp.ne.u32 %p, %r0, 0; @%p bra AGAIN; "
            "membar.gl;\n"
            "ld.volatile.global.u64 %rd1, [%rd0+8]; add.u64 %rd1, %rd1, 1; st.volatile.global.u64 "
            "[%rd0+8], %rd1; fence.acq_rel.gpu; atom.global.exch.b32 %r1, [%rd0], 0; ret; }",
        {reinterpret_cast<uint64_t>(memory)}, {{8, 1, 1}, {64, 1, 1}}, &per_thread);
    cr_assert_eq(memory[1], 512);
    cr_assert(per_thread);
}

Test(lower_control, special_registers_of_a_large_grid)
{
    std::vector<uint64_t> out(3 * 2 * 2 * 4 * 3 * 2);
    launch(
        kHead +
            ".visible .entry k(.param .u64 out) { .reg .b64 %rd<6>; .reg .b32 %r<30>; ld.param.u64 "
            "%rd0, [out];\n"
            "mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ctaid.y; mov.u32 %r2, %ctaid.z; mov.u32 %r3, "
            "%nctaid.x; mov.u32 %r4, %nctaid.y; mov.u32 %r5, %tid.x; mov.u32 %r6, %tid.y; mov.u32 "
            "%r7, %tid.z;\n"
            "mov.u32 %r8, %ntid.x; mov.u32 %r9, %ntid.y; mov.u32 %r10, %ntid.z;\n"
            "mad.lo.u32 %r11, %r2, %r4, %r1; mad.lo.u32 %r11, %r11, %r3, %r0; mad.lo.u32 %r11, "
            "%r11, %r10, %r7; mad.lo.u32 %r11, %r11, %r9, %r6; mad.lo.u32 %r11, %r11, %r8, %r5;\n"
            "mul.wide.u32 %rd1, %r11, 8; add.u64 %rd2, %rd0, %rd1; cvt.u64.u32 %rd3, %r11; add.u64 "
            "%rd3, %rd3, 1; st.global.u64 [%rd2], %rd3; ret; }",
        {address(out)}, {{3, 2, 2}, {4, 3, 2}});
    expect(out, [](uint64_t i) { return i + 1; });
}

Test(lower_control, printf_and_assert)
{
    auto m = parse(
        kHead +
        ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
        ".extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, "
        ".param .b64 e) .noreturn;\n"
        ".global .align 1 .b8 text[] = {118, 61, 37, 100, 10, 0};\n"
        ".visible .entry k(.param .u64 x) { .local .align 8 .b8 d[8]; .reg .b64 %rd<6>; .reg .b32 "
        "%r; mov.u64 %rd0, d; cvta.local.u64 %rd1, %rd0; st.local.u32 [%rd0], 42;\n"
        "mov.u64 %rd2, text; cvta.global.u64 %rd3, %rd2; { .param .b64 p0; .param .b64 p1; .param "
        ".b32 q; st.param.b64 [p0], %rd3; st.param.b64 [p1], %rd1; call.uni (q), vprintf, (p0, "
        "p1); ld.param.b32 %r, [q]; } ret; }\n"
        ".visible .entry fails(.param .u64 x) { .reg .b64 %rd<6>; mov.u64 %rd2, text; "
        "cvta.global.u64 %rd3, %rd2;\n"
        "{ .param .b64 p0; .param .b64 p1; .param .b32 p2; .param .b64 p3; .param .b64 p4; "
        "st.param.b64 [p0], %rd3; st.param.b64 [p1], %rd3; st.param.b32 [p2], 9; st.param.b64 "
        "[p3], %rd3; st.param.b64 [p4], 1; call.uni __assertfail, (p0, p1, p2, p3, p4); } ret; }\n"
        ".visible .entry traps(.param .u64 x) { trap; }");
    Globals globals(*m);
    std::string printed;
    cr_assert(!launch(*m, globals, "k", {0}, {}, &printed));
    cr_assert_str_eq(printed.c_str(), "v=42\n");
    auto fault = launch(*m, globals, "fails", {0}, {}, &printed);
    cr_assert(fault && fault->kind == FaultKind::assertion);
    fault = launch(*m, globals, "traps", {0}, {}, &printed);
    cr_assert(fault && fault->kind == FaultKind::trap);
}

Test(lower_control, wild_pointer_is_a_fault)
{
    auto m = parse(kHead +
                   ".visible .entry k(.param .u64 x) { .reg .b64 %rd0; .reg .b32 %r0; mov.u64 "
                   "%rd0, 16; ld.global.u32 %r0, [%rd0]; st.global.u32 [%rd0+64], %r0; ret; }");
    Globals globals(*m);
    auto fault = launch(*m, globals, "k", {0}, {});
    cr_assert(fault && fault->kind == FaultKind::illegal_address);
}

// (For LLVM a null pointer is nobody's memory unless told otherwise, and what writes to it is never
// reached.)
Test(lower_control, null_pointer_is_a_fault)
{
    for (const char *text : {"mov.u64 %rd0, 0; st.global.u32 [%rd0], 1;", "st.global.u32 [0], 1;",
                             "mov.u64 %rd0, 0; ld.volatile.u32 %r0, [%rd0];"}) {
        auto m = parse(kHead +
                       ".visible .entry k(.param .u64 x) { .reg .b64 %rd0; .reg .b32 %r0; " + text +
                       " ret; }");
        Globals globals(*m);
        auto fault = launch(*m, globals, "k", {0}, {});
        cr_expect(fault && fault->kind == FaultKind::illegal_address, "%s: %s", text,
                  fault ? fault->text.c_str() : "no fault");
    }
}

Test(lower_control, what_is_nowhere_defined_fails_the_load)
{
    auto m = PtxModule::parse(
        kHead + ".extern .func elsewhere(.param .b32 a);\n.visible .entry k() { .reg .b32 %r; "
                "mov.u32 %r, 1;\n"
                "{ .param .b32 p; st.param.b32 [p], %r; call.uni elsewhere, (p); } ret; }");
    cr_assert(!m && m.error().text.find("elsewhere") != std::string::npos, "%s",
              m ? "it loads" : m.error().text.c_str());
    m = PtxModule::parse(kHead + ".extern .global .u32 far;\n.visible .entry k() { .reg .b32 %r; "
                                 "ld.global.u32 %r, [far]; ret; }");
    cr_assert(!m && m.error().text.find("far") != std::string::npos, "%s",
              m ? "it loads" : m.error().text.c_str());
    m = PtxModule::parse(kHead + ".extern .global .u32 far;\n.extern .func elsewhere(.param .b32 "
                                 "a);\n.visible .entry k() { ret; }");
    cr_assert(m.has_value(), "what is declared and not used may be missing");
}

Test(lower_control, alias_is_another_name)
{
    uint64_t out = 0;
    launch(kHead + ".visible .func (.param .b32 r) real(.param .b32 a) { .reg .b32 %x; "
                   "ld.param.b32 %x, [a]; mad.lo.u32 %x, %x, 3, 1; st.param.b32 [r], %x; ret; }\n"
                   ".visible .func (.param .b32 r) other(.param .b32 a);\n.alias other, real;\n"
                   ".visible .entry k(.param .u64 o) { .reg .b64 %p; .reg .b32 %x; ld.param.u64 "
                   "%p, [o]; mov.u32 %x, 5;\n"
                   "{ .param .b32 a; .param .b32 r; st.param.b32 [a], %x; call.uni (r), other, "
                   "(a); ld.param.b32 %x, [r]; } st.global.u32 [%p], %x; ret; }",
           {reinterpret_cast<uint64_t>(&out)}, {});
    cr_assert_eq(out, 16);
}

Test(lower_control, branch_by_a_predicate_that_nobody_wrote)
{
    uint64_t out = 0;
    launch(kHead + ".visible .entry k(.param .u64 o) { .reg .b64 %p; .reg .b32 %x; .reg .pred %q; "
                   "ld.param.u64 %p, [o]; @%q bra past;\n"
                   "past: st.global.u32 [%p], 9; @%q bra back; ret; back: bra past; }",
           {reinterpret_cast<uint64_t>(&out)}, {});
    cr_assert_eq(out, 9);
}
