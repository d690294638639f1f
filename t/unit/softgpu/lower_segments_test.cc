// SPDX-License-Identifier: Apache-2.0
// Kernels that are cut into segments: random ones give what the same kernels give as fibers, and
// those that must not be cut are not.
#include "lower_support.h"

#include <cstdlib>
#include <random>

using namespace lower_test;

namespace {

// Writes a random kernel: structured control flow, in which threads exchange values through
// barriers and warp operations. No two threads race, so both engines must agree to the bit.
class RandomKernel {
public:
    explicit RandomKernel(uint64_t seed) : rng_(seed) {}

    std::string text()
    {
        for (int i = 0; i < 4 + number(8); ++i) statement(0, true, true);
        std::string out;
        for (int r = 0; r < kRegisters; ++r) out += "mad.lo.u32 %sum, %sum, 31, " + name(r) + ";\n";
        return kHead +
               ".visible .entry k(.param .u64 out, .param .u64 in) {\n"
               ".reg .b64 %rd<20>; .reg .b32 %r<20>, %t<400>, %i<40>, %sum, %tid, %lane, %n, %all, "
               "%at;\n.reg .pred %p<400>; .reg .f32 %f<8>;\n.shared .align 8 .b8 s[8192];\n"
               ".local .align 8 .b8 l[64];\n"
               "mov.u32 %r10, %tid.x; mov.u32 %r11, %tid.y; mov.u32 %r12, %ntid.x; mov.u32 %r13, "
               "%ntid.y;\nmad.lo.u32 %tid, %r11, %r12, %r10; mul.lo.u32 %all, %r12, %r13;\n"
               "mov.u32 %lane, %laneid; mov.u32 %r14, %ctaid.x; mad.lo.u32 %n, %r14, %all, %tid;\n"
               "shl.b32 %at, %tid, 2; mov.u32 %r15, s; add.u32 %at, %at, %r15; mov.u32 %sum, 0;\n"
               "ld.param.u64 %rd0, [out]; ld.param.u64 %rd1, [in]; mul.wide.u32 %rd2, %n, 4;\n"
               "add.u64 %rd0, %rd0, %rd2; add.u64 %rd2, %rd1, %rd2;\n" +
               before_ + code_ + out +
               "xor.b32 %sum, %sum, 1;\nst.global.u32 [%rd0], %sum;\nret;\n}\n";
    }

    static std::string with_values()
    {
        std::string s;
        for (int r = 0; r < kRegisters; ++r)
            s += r % 3 == 0 ? "ld.global.u32 " + name(r) + ", [%rd2];\n"
                 : r % 3 == 1
                     ? "mad.lo.u32 " + name(r) + ", %tid, 7, " + std::to_string(r) + ";\n"
                     : "ld.global.u32 " + name(r) + ", [%rd1+" + std::to_string(4 * r) + "];\n";
        // What threads that end early leave for others to read.
        return s + "st.local.u32 [l+8], %tid; st.shared.u32 [%at], %tid;\n";
    }

private:
    static constexpr int kRegisters = 8;

    int number(int below) { return static_cast<int>(rng_() % static_cast<unsigned>(below)); }
    static std::string name(int r) { return "%r" + std::to_string(r); }
    std::string any() { return number(6) ? name(number(kRegisters)) : std::to_string(number(100)); }
    std::string some() { return name(number(kRegisters)); }
    std::string fresh(const char *prefix) { return prefix + std::to_string(fresh_++); }
    void line(const std::string &s) { code_ += s + "\n"; }

    // A predicate; `level`: the same for all of a block's threads.
    std::string condition(bool level)
    {
        std::string p = fresh("%p");
        if (level) {
            line("setp.lt.u32 " + p + ", %r14, " + std::to_string(number(3)) + ";");
        } else {
            std::string t = fresh("%t");
            const char *from[] = {"%tid", "%lane", "%r11"};
            std::string what = number(3) ? from[number(3)] : some();
            line("and.b32 " + t + ", " + what + ", " + std::to_string(1 + number(31)) + ";");
            line("setp.lt.u32 " + p + ", " + t + ", " + std::to_string(number(16)) + ";");
        }
        return p;
    }

    void arithmetic()
    {
        const char *ops[] = {"add.u32", "sub.u32", "mul.lo.u32", "xor.b32",
                             "and.b32", "or.b32",  "min.u32",    "max.s32"};
        std::string guard = number(4) ? "" : "@" + condition(false) + " ";
        line(guard + ops[number(8)] + " " + some() + ", " + some() + ", " + any() + ";");
    }

    // Lanes of `mask` are here together, at least.
    void warp_operation(const std::string &mask)
    {
        std::string t = fresh("%t"), p = fresh("%p");
        switch (number(7)) {
        case 0:
            line("shfl.sync.bfly.b32 " + t + "|" + p + ", " + some() + ", " +
                 std::to_string(1 << number(5)) + ", 31, " + mask + ";");
            line("@" + p + " add.u32 " + some() + ", " + t + ", 5;");
            return;
        case 1:
            line("shfl.sync.down.b32 " + t + ", " + some() + ", " + std::to_string(number(20)) +
                 ", " + (number(2) ? "31" : "0x1007") + ", " + mask + ";");
            break;
        case 2:
            line("shfl.sync.up.b32 " + t + ", " + some() + ", " + std::to_string(number(20)) +
                 ", 0, " + mask + ";");
            break;
        case 3:
            line("shfl.sync.idx.b32 " + t + ", " + some() + ", " + some() + ", 31, " + mask + ";");
            break;
        case 4: {
            std::string q = condition(false);
            line("vote.sync.ballot.b32 " + t + ", " + q + ", " + mask + ";");
            break;
        }
        case 5: line("redux.sync.add.u32 " + t + ", " + some() + ", " + mask + ";"); break;
        case 6: {
            std::string q = condition(false);
            line(std::string("vote.sync.") + (number(2) ? "any" : "all") + ".pred " + p + ", " + q +
                 ", " + mask + ";");
            line("selp.u32 " + t + ", 3, 9, " + p + ";");
            break;
        }
        }
        line("add.u32 " + some() + ", " + some() + ", " + t + ";");
    }

    void exchange()
    {
        std::string t = fresh("%t"), u = fresh("%t"), v = fresh("%t");
        line("st.shared.u32 [%at], " + some() + ";");
        line("bar.sync 0;");
        // Another thread of the block.
        line("add.u32 " + t + ", %tid, " + std::to_string(1 + number(60)) + ";");
        line("rem.u32 " + t + ", " + t + ", %all; shl.b32 " + t + ", " + t + ", 2;");
        line("add.u32 " + u + ", %r15, " + t + "; ld.shared.u32 " + v + ", [" + u + "];");
        line("bar.sync 0;");
        line("xor.b32 " + some() + ", " + some() + ", " + v + ";");
    }

    void reduce()
    {
        std::string t = fresh("%t"), q = condition(false);
        line("bar.red.popc.u32 " + t + ", 0, " + q + ";");
        line("add.u32 " + some() + ", " + some() + ", " + t + ";");
    }

    // `level`: all threads of the block come here; `warp`: all lanes of the warp.
    void statement(int depth, bool level, bool warp)
    {
        switch (number(depth < 3 ? 14 : 6)) {
        default: return arithmetic();
        case 4: return level ? exchange() : arithmetic();
        case 5: return warp ? warp_operation("0xffffffff") : arithmetic();
        case 6: return level ? reduce() : arithmetic();
        case 7: {  // local memory
            std::string t = fresh("%t");
            line("ld.local.u32 " + t + ", [l+8]; add.u32 " + t + ", " + t + ", " + some() +
                 "; st.local.u32 [l+8], " + t + "; xor.b32 " + some() + ", " + some() + ", " + t +
                 ";");
            return;
        }
        case 8: {  // floats
            line("cvt.rn.f32.u32 %f0, " + some() +
                 "; fma.rn.f32 %f1, %f0, 0f3F000000, %f0; "
                 "mov.b32 " +
                 some() + ", %f1;");
            return;
        }
        case 9: {  // half of a warp
            if (!warp) return arithmetic();
            std::string p = fresh("%p"), other = fresh("HALF");
            line("setp.ge.u32 " + p + ", %lane, 16; @" + p + " bra " + other + ";");
            for (int i = 0; i < 1 + number(3); ++i) {
                warp_operation("0xffff");
                arithmetic();
            }
            line(other + ":");
            return;
        }
        case 10: {  // threads that are done
            if (!level || depth || number(3)) return arithmetic();
            std::string p = fresh("%p");
            line("setp.gt.u32 " + p + ", %tid, " + std::to_string(20 + number(100)) + ";");
            line("@" + p + " st.global.u32 [%rd0], " + some() + "; @" + p + " exit;");
            return;
        }
        case 11:
        case 12: {
            const bool same = number(2);
            std::string p = condition(same), other = fresh("ELSE"), end = fresh("END");
            line("@" + p + " bra " + other + ";");
            for (int i = 0; i < 1 + number(3); ++i)
                statement(depth + 1, level && same, warp && same);
            line("bra.uni " + end + ";");
            line(other + ":");
            for (int i = 0; i < number(3); ++i) statement(depth + 1, level && same, warp && same);
            line(end + ":");
            return;
        }
        case 13: {
            const bool same = number(2);
            std::string i = fresh("%t"), n = fresh("%t"), p = fresh("%p"), loop = fresh("LOOP");
            if (same)
                line("add.u32 " + n + ", %r14, " + std::to_string(1 + number(3)) + ";");
            else
                line("and.b32 " + n + ", %tid, " + std::to_string(number(4)) + "; add.u32 " + n +
                     ", " + n + ", 1;");
            line("mov.u32 " + i + ", 0;\n" + loop + ":");
            for (int k = 0; k < 1 + number(3); ++k)
                statement(depth + 1, level && same, warp && same);
            line("add.u32 " + i + ", " + i + ", 1; setp.lt.u32 " + p + ", " + i + ", " + n + "; @" +
                 p + " bra " + loop + ";");
            line("add.u32 " + some() + ", " + some() + ", " + i + ";");
            return;
        }
        }
    }

    std::mt19937_64 rng_;
    std::string code_, before_ = with_values();
    int fresh_ = 0;
};

std::vector<uint32_t> run_as(bool fibers, const std::string &ptx, Shape shape, bool *per_thread)
{
    setenv("RGPU_SOFTGPU_FIBERS", fibers ? "1" : "0", 1);
    const size_t n = shape.grid.count() * shape.block.count();
    std::vector<uint32_t> out(n, 0xEEEEEEEE), in(n + 16);
    for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<uint32_t>(i * 2654435761u >> 7);
    launch(ptx, {address(out), address(in)}, shape, per_thread);
    return out;
}

// How many and which: RGPU_TEST_KERNELS, RGPU_TEST_SEED.
uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *set = getenv(name);
    return set ? strtoull(set, nullptr, 10) : otherwise;
}

std::optional<Fault> fault_of(const std::string &ptx, Shape shape, uint64_t parameter = 0)
{
    setenv("RGPU_SOFTGPU_FIBERS", "0", 1);
    auto m = parse(ptx);
    Globals globals(*m);
    return launch(*m, globals, "k", {parameter}, shape);
}

std::string small(const std::string &body)
{
    return kHead +
           ".visible .entry k(.param .u64 m) { .reg .b64 %rd<9>; .reg .b32 %r<9>; .reg "
           ".pred %p<9>;\n .shared .align 4 .b8 s[512];\n ld.param.u64 %rd0, [m]; mov.u32 "
           "%r0, %tid.x;\n" +
           body + " ret; }";
}

bool is_cut(const std::string &ptx)
{
    setenv("RGPU_SOFTGPU_FIBERS", "0", 1);
    auto compiled = parse(ptx)->compile("k");
    cr_assert(compiled.has_value(), "%s", compiled ? "" : compiled.error().text.c_str());
    return !compiled->per_thread;
}

// Of a kernel without meetings: do its lanes go in step?
bool goes_in_step(const std::string &body)
{
    setenv("RGPU_SOFTGPU_FIBERS", "0", 1);
    auto compiled = parse(small("shl.b32 %r1, %r0, 2; mov.u32 %r2, s; add.u32 %r3, %r1, %r2;\n" +
                                body + "st.global.u32 [%rd0], %r4;"))
                        ->compile("k");
    cr_assert(compiled.has_value(), "%s", compiled ? "" : compiled.error().text.c_str());
    const auto &object = compiled->object;
    return std::string(object.begin(), object.end()).find("rt_run_warps") != std::string::npos;
}

}  // namespace

// Which accesses of shared memory need a step between them. %r3 is a lane's own place.
Test(lower_segments, lanes_go_in_step_where_they_may_see_each_other)
{
    cr_assert(!goes_in_step("st.shared.u32 [%r3], %r0; ld.shared.u32 %r4, [%r3];"));
    cr_assert(!goes_in_step("ld.shared.u32 %r4, [%r3+128]; st.shared.u32 [%r3], %r4;"));
    cr_assert(goes_in_step("ld.shared.u32 %r4, [%r3+32]; st.shared.u32 [%r3], %r4;"));
    cr_assert(goes_in_step("st.shared.u32 [%r3], %r0; ld.shared.u32 %r4, [%r2];"));
    cr_assert(goes_in_step("xor.b32 %r5, %r3, 4; ld.shared.u32 %r4, [%r5]; "
                           "st.shared.u32 [%r3], %r4;"));
    cr_assert(!goes_in_step("ld.shared.u32 %r4, [%r2]; ld.shared.u32 %r5, [%r3];"));
    cr_assert(goes_in_step("ld.shared.u32 %r4, [%r2]; atom.shared.add.u32 %r5, [%r2], 1;"));
    cr_assert(!goes_in_step("atom.shared.add.u32 %r4, [%r2], 1; red.shared.add.u32 [%r2], 1;"));
}

// s[t] += s[t + k] of the lanes with t < k.
Test(lower_segments, what_a_branch_keeps_apart_needs_no_step)
{
    const std::string head = "ld.global.u32 %r5, [%rd0]; ",
                      addition = "@%p0 bra L; shl.b32 %r6, %r5, 2; add.u32 %r7, %r3, %r6;\n"
                                 "ld.shared.u32 %r4, [%r7]; st.shared.u32 [%r3], %r4; L:";
    cr_assert(!goes_in_step(head + "setp.ge.u32 %p0, %r0, %r5; " + addition));
    cr_assert(!goes_in_step(head + "setp.le.u32 %p0, %r5, %r0; " + addition));
    cr_assert(goes_in_step(head + "setp.gt.u32 %p0, %r0, %r5; " + addition));
    cr_assert(goes_in_step(head + "setp.lt.u32 %p0, %r0, %r5; " + addition));
    cr_assert(goes_in_step(head + "setp.ne.u32 %p0, %r0, %r5; " + addition));
    cr_assert(goes_in_step(head + "setp.ge.u32 %p0, %r0, %r5; add.u32 %r5, %r5, 0; " + addition));
    const std::string fixed = "@%p0 bra L; ld.shared.u32 %r4, [%r3+64]; st.shared.u32 [%r3], %r4; "
                              "L:";
    cr_assert(!goes_in_step("setp.gt.u32 %p0, %r0, 15; " + fixed));
    cr_assert(goes_in_step("setp.gt.u32 %p0, %r0, 16; " + fixed));
}

Test(lower_segments, random_kernels_give_what_fibers_give, .timeout = 3000)
{
    const Dim3 shapes[] = {{128, 1, 1}, {16, 16, 1}, {7, 9, 1}, {33, 3, 1}, {1, 40, 1}, {96, 2, 1}};
    const uint64_t seed = setting("RGPU_TEST_SEED", 1), count = setting("RGPU_TEST_KERNELS", 60);
    uint64_t cut = 0;
    for (uint64_t k = seed; k < seed + count; ++k) {
        const std::string ptx = RandomKernel(k).text();
        const Shape shape{{3, 1, 1}, shapes[k % std::size(shapes)]};
        bool per_thread = true;
        const auto got = run_as(false, ptx, shape, &per_thread),
                   want = run_as(true, ptx, shape, nullptr);
        cut += !per_thread;
        for (size_t i = 0; i < got.size(); ++i)
            cr_assert_eq(got[i], want[i], "kernel %lu, thread %zu: %#x, as a fiber %#x\n%s", k, i,
                         got[i], want[i], ptx.c_str());
    }
    cr_assert(cut > count * 3 / 4, "%lu of %lu kernels were cut", cut, count);
}

Test(lower_segments, what_spins_is_not_cut)
{
    cr_assert(!is_cut(small("bar.sync 0; L: ld.volatile.global.u32 %r1, [%rd0]; setp.eq.u32 %p0, "
                            "%r1, 0; @%p0 bra L;")));
    cr_assert(!is_cut(small("L: bar.sync 0; ld.global.u32 %r1, [%rd0]; setp.eq.u32 %p0, %r1, 0; "
                            "@%p0 bra L;")));
    cr_assert(is_cut(small("L: bar.sync 0; ld.global.u32 %r1, [%rd0]; add.u64 %rd0, %rd0, 4; "
                           "setp.eq.u32 %p0, %r1, 0; @%p0 bra L;")));
    cr_assert(!is_cut(small("activemask.b32 %r1; st.global.u32 [%rd0], %r1;")));
    cr_assert(is_cut(small("bar.sync 0; st.shared.u32 [s], %r0;")));
}

// An atomic operation in a loop is no spinning where its result does not decide whether there is
// another one.
Test(lower_segments, atomics_in_loops_are_cut_where_nobody_spins)
{
    const std::string head = "bar.sync 0; mov.u32 %r2, 0; L: atom.global.add.u32 %r1, [%rd0], 1;\n",
                      turn = "add.u32 %r2, %r2, 1; setp.lt.u32 %p0, %r2, 9; @%p0 bra L;";
    cr_assert(is_cut(small(head + "st.global.u32 [%rd0+4], %r1;" + turn)));
    cr_assert(is_cut(small(head +
                           "setp.gt.u32 %p1, %r1, 5; @%p1 bra M; st.global.u32 [%rd0+4], %r1; "
                           "M: " +
                           turn)));
    cr_assert(is_cut(small(head +
                           "st.shared.u32 [s], %r1; ld.shared.u32 %r3, [s]; st.global.u32 "
                           "[%rd0+4], %r3;" +
                           turn)));
    // It is what the loop waits for: at once, through other registers, a branch or shared memory.
    cr_assert(!is_cut(small(head + "setp.ne.u32 %p0, %r1, 5; @%p0 bra L;")));
    cr_assert(
        !is_cut(small(head + "setp.ne.u32 %p0, %r1, 5; @%p0 bra L; st.global.u32 [%rd0], %r1;")));
    cr_assert(
        !is_cut(small(head + "setp.gt.u32 %p1, %r1, 5; mov.u32 %r3, 1; @%p1 bra M; mov.u32 %r3, "
                             "0; M: setp.eq.u32 %p0, %r3, 0; @%p0 bra L; st.global.u32 [%rd0], "
                             "%r3;")));
    cr_assert(
        !is_cut(small(head + "st.shared.u32 [s], %r1; bar.sync 0; ld.shared.u32 %r3, [s]; "
                             "setp.ne.u32 %p0, %r3, 5; @%p0 bra L; st.global.u32 [%rd0], %r3;")));
    cr_assert(!is_cut(small(head + "setp.eq.u32 %p1, %r1, 5; @%p1 exit; bra L;")));
}

Test(lower_segments, a_barrier_that_not_all_reach_is_told)
{
    auto fault = fault_of(small("setp.eq.u32 %p0, %r0, 5; @%p0 bra L; bar.sync 0; bra.uni E;\n"
                                "L: bar.sync 1;\nE:"),
                          {{1, 1, 1}, {64, 1, 1}});
    cr_assert(fault && fault->kind == FaultKind::deadlock);
    cr_assert(fault->text.find("63 at barrier 0 for 64 threads; 1 at barrier 1") !=
                  std::string::npos,
              "%s", fault->text.c_str());
}

Test(lower_segments, a_warp_operation_that_not_all_reach_is_told)
{
    auto fault =
        fault_of(small("setp.eq.u32 %p0, %r0, 5; @%p0 bra L; bar.warp.sync -1; bra.uni E;\n"
                       "L: bar.sync 0;\nE:"),
                 {{1, 1, 1}, {32, 1, 1}});
    cr_assert(fault && fault->kind == FaultKind::deadlock);
    cr_assert(fault->text.find("lanes ffffffdf of warp 0") != std::string::npos, "%s",
              fault->text.c_str());
}

// All lanes of a warp run at once, and yet the one at fault is named, with its own address.
Test(lower_segments, a_bad_address_is_told)
{
    uint32_t memory[65] = {};
    const struct {
        Dim3 shape;
        unsigned number;
        const char *thread;
    } cases[] = {{{64, 1, 1}, 0, "(0,0,0)"},
                 {{64, 1, 1}, 21, "(21,0,0)"},
                 {{64, 1, 1}, 63, "(63,0,0)"},
                 {{16, 4, 1}, 37, "(5,2,0)"}};
    for (const auto &c : cases) {
        const std::string body =
            "mov.u32 %r1, %tid.y; mov.u32 %r2, %ntid.x; mad.lo.u32 %r0, %r1, %r2, %r0;\nbar.sync "
            "0; "
            "mul.wide.u32 %rd1, %r0, 4; add.u64 %rd2, %rd1, %rd0; setp.eq.u32 %p0, %r0, " +
            std::to_string(c.number) +
            "; selp.b64 %rd2, %rd1, %rd2, %p0; ld.global.u32 %r3, [%rd2]; bar.sync 0; "
            "st.global.u32 [%rd0], %r3;";
        auto fault =
            fault_of(small(body), {{1, 1, 1}, c.shape}, reinterpret_cast<uint64_t>(memory));
        cr_assert(fault && fault->kind == FaultKind::illegal_address);
        cr_assert_eq(fault->address, uint64_t{4} * c.number);
        cr_assert(fault->text.find("reads") != std::string::npos, "%s", fault->text.c_str());
        cr_assert(fault->text.find(std::string("block (0,0,0), thread ") + c.thread) !=
                      std::string::npos,
                  "%s", fault->text.c_str());
    }
}

Test(lower_segments, a_fault_in_one_branch_is_told)
{
    auto fault = fault_of(small("bar.sync 0; mov.u64 %rd1, 64; setp.ne.u32 %p0, %r0, 37; @%p0 bra "
                                "E; st.global.u32 [%rd1], %r0; E: bar.sync 0;"),
                          {{1, 1, 1}, {64, 1, 1}});
    cr_assert(fault && fault->kind == FaultKind::illegal_address);
    cr_assert(fault->text.find("thread (37,0,0)") != std::string::npos, "%s", fault->text.c_str());
    fault =
        fault_of(small("bar.sync 0; setp.ne.u32 %p0, %r0, 37; @%p0 bra E; trap; E: bar.sync 0;"),
                 {{1, 1, 1}, {64, 1, 1}});
    cr_assert(fault && fault->kind == FaultKind::trap);
    cr_assert(fault->text.find("thread (37,0,0)") != std::string::npos, "%s", fault->text.c_str());
}

// x86 carries it out, so that it shows only when all lanes have.
Test(lower_segments, a_misaligned_access_is_told)
{
    alignas(4) uint8_t memory[256] = {};
    auto fault = fault_of(small("bar.sync 0; ld.global.u32 %r1, [%rd0]; bar.sync 0; st.global.u32 "
                                "[%rd0+4], %r1;"),
                          {{1, 1, 1}, {32, 1, 1}}, reinterpret_cast<uint64_t>(memory + 1));
    cr_assert(fault && fault->kind == FaultKind::misaligned_address);
    cr_assert(fault->text.find("one of the threads (0,0,0) to (31,0,0)") != std::string::npos, "%s",
              fault->text.c_str());
}

// Lanes of both ways of a branch meet at one operation.
Test(lower_segments, both_ways_of_a_branch_meet)
{
    uint32_t out[64] = {};
    setenv("RGPU_SOFTGPU_FIBERS", "0", 1);
    launch(small("and.b32 %r1, %r0, 1; setp.eq.u32 %p0, %r1, 0; @%p0 bra L;\n"
                 "shfl.sync.bfly.b32 %r2, %r0, 1, 31, -1; bra.uni E;\n"
                 "L: shfl.sync.bfly.b32 %r2, %r0, 1, 31, -1; add.u32 %r2, %r2, 100;\n"
                 "E: mul.wide.u32 %rd1, %r0, 4; add.u64 %rd1, %rd1, %rd0; st.global.u32 [%rd1], "
                 "%r2;"),
           {reinterpret_cast<uint64_t>(out)}, {{1, 1, 1}, {64, 1, 1}});
    for (uint32_t i = 0; i < 64; ++i) cr_assert_eq(out[i], (i ^ 1) + (i % 2 ? 0 : 100));
}

// Warps that wait for each other through memory, in loops of meetings without a volatile load.
Test(lower_segments, a_loop_of_meetings_lets_other_warps_run)
{
    uint32_t out[1] = {};
    setenv("RGPU_SOFTGPU_FIBERS", "0", 1);
    launch(small("setp.ge.u32 %p1, %r0, 32; @%p1 bra W; mov.u32 %r1, 0;\n"
                 "L: bar.warp.sync -1; ld.shared.u32 %r1, [s]; setp.ne.u32 %p0, %r1, 77; @%p0 bra "
                 "L;\nst.global.u32 [%rd0], %r1; bra.uni E;\n"
                 "W: st.shared.u32 [s], 77;\nE:"),
           {reinterpret_cast<uint64_t>(out)}, {{1, 1, 1}, {64, 1, 1}});
    cr_assert_eq(out[0], 77);
}
