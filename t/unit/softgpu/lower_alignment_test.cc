// SPDX-License-Identifier: Apache-2.0
// Every access that is not aligned to its size ends the grid with a fault; every other one does
// not.
#include "lower_support.h"

using namespace lower_test;

namespace {

struct Access {
    const char *text;  // of %p (a pointer into memory), %s (shared memory), %o (an offset in bytes)
    unsigned bytes;
};

const Access kAccesses[] = {
    {"ld.global.u8 %h, [%p];", 1},
    {"ld.global.u16 %h, [%p];", 2},
    {"ld.global.u32 %r, [%p];", 4},
    {"ld.global.f32 %f, [%p+4];", 4},
    {"ld.global.u64 %d, [%p+8];", 8},
    {"ld.u32 %r, [%p];", 4},
    {"ld.volatile.global.u32 %r, [%p];", 4},
    {"ld.acquire.gpu.global.u64 %d, [%p];", 8},
    {"ld.global.v2.u32 {%r, %t}, [%p];", 8},
    {"ld.global.nc.v4.f32 {%f, %g, %f, %g}, [%p+16];", 16},
    {"ld.global.v2.u64 {%d, %e}, [%p];", 16},
    {"st.global.u8 [%p], %h;", 1},
    {"st.global.u16 [%p], %h;", 2},
    {"st.global.u32 [%p], %r;", 4},
    {"st.global.v4.u32 [%p], {%r, %t, %r, %t};", 16},
    {"st.release.gpu.global.u32 [%p], %r;", 4},
    {"atom.global.add.u32 %r, [%p], 1;", 4},
    {"atom.global.add.u64 %d, [%p], 1;", 8},
    {"atom.global.cas.b32 %r, [%p], 1, 2;", 4},
    {"red.global.add.f32 [%p], 0f3F800000;", 4},
    {"cp.async.ca.shared.global [buffer], [%p], 4;", 4},
    {"cp.async.cg.shared.global [buffer], [%p], 16;", 16},
    {"ld.shared.u32 %r, [%s];", 4},
    {"st.shared.v2.f32 [%s+8], {%f, %g};", 8},
    {"st.shared.u16 [%s], %h;", 2},
    // The pointer moves, by what keeps the alignment and by what does not.
    {"mov.u32 %t, 3; loop: ld.global.u32 %r, [%p]; add.s64 %p, %p, 16; sub.u32 %t, %t, 1; "
     "setp.ne.u32 %q, %t, 0; @%q bra loop;",
     4},
    {"mov.u64 %e, %p; mul.wide.u32 %d, %x, 8; add.s64 %e, %e, %d; ld.global.f64 %l, [%e];", 8},
    {"shl.b32 %t, %x, 2; cvt.u64.u32 %d, %t; add.s64 %e, %p, %d; st.global.u32 [%e], %r;", 4},
    {"mad.wide.u32 %e, %x, 16, %p; ld.global.v4.u32 {%r, %t, %r, %t}, [%e];", 16},
    {"and.b64 %e, %p, -8; add.s64 %e, %e, %o; ld.global.u64 %d, [%e];", 8},
    {"setp.eq.u32 %q, %x, 0; selp.b64 %e, %p, %o, %q; ld.global.u32 %r, [%e];", 4},
    {"{ .param .b64 a; .param .b32 v; st.param.b64 [a], %p; call.uni (v), load, (a); ld.param.b32 "
     "%r, [v]; }",
     4},
};

std::string kernel(const Access &a, bool waits)
{
    return kHead + R"(
.func (.param .b32 value) load(.param .b64 from)
{
  .reg .b64 %a; .reg .b32 %v;
  ld.param.b64 %a, [from]; ld.u32 %v, [%a]; st.param.b32 [value], %v; ret;
}
.visible .entry k(.param .u64 pointer, .param .u64 offset)
{
  .reg .b64 %p, %o, %d, %e; .reg .b32 %r, %t, %s, %x; .reg .b16 %h; .reg .f32 %f, %g;
  .reg .f64 %l; .reg .pred %q;
  .shared .align 16 .b8 buffer[64];
  ld.param.u64 %p, [pointer]; ld.param.u64 %o, [offset]; cvta.to.global.u64 %p, %p;
  mov.u32 %x, %tid.x;
  mov.u32 %s, buffer; cvt.u32.u64 %t, %o; add.u32 %s, %s, %t; mov.f32 %f, 0f00000000;
  mov.f32 %g, %f; mov.b32 %r, %f;
  mov.b16 %h, 0;
  )" + (waits ? "bar.sync 0;\n  " : "") +
           a.text + "\n  ret;\n}\n";
}

}  // namespace

Test(alignment, is_demanded_of_every_access)
{
    alignas(64) static uint64_t memory[32];
    for (bool waits : {false, true})
        for (const Access &a : kAccesses) {
            auto m = parse(kernel(a, waits));
            Globals globals(*m);
            for (unsigned k = 0; k < 16; ++k) {
                auto fault = launch(*m, globals, "k", {reinterpret_cast<uint64_t>(memory) + k, k},
                                    {{1, 1, 1}, {1, 1, 1}});
                const bool wrong = fault && fault->kind == FaultKind::misaligned_address;
                cr_expect(wrong == (k % a.bytes != 0) && (wrong || !fault),
                          "%s at offset %u, %s: %s", a.text, k, waits ? "thread" : "block",
                          fault ? fault->text.c_str() : "no fault");
            }
        }
}

Test(alignment, counts_only_where_a_thread_goes)
{
    const std::string ptx = kHead + R"(
.visible .entry k(.param .u64 pointer, .param .u32 which)
{
  .reg .b64 %p; .reg .b32 %r, %w, %x; .reg .pred %q;
  ld.param.u64 %p, [pointer]; ld.param.u32 %w, [which]; mov.u32 %x, %tid.x;
  setp.ne.u32 %q, %x, %w; @%q bra past;
  ld.global.u32 %r, [%p]; st.global.u32 [%p], %r;
past: ret;
}
)";
    alignas(8) static char memory[16];
    auto m = parse(ptx);
    Globals globals(*m);
    auto run = [&](uint64_t thread) {
        return launch(*m, globals, "k", {reinterpret_cast<uint64_t>(memory) + 1, thread},
                      {{2, 1, 1}, {64, 1, 1}})
            .has_value();
    };
    cr_assert_not(run(64));
    cr_assert(run(63));
    cr_assert(run(0));
}
