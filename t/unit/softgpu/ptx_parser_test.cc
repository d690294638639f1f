// SPDX-License-Identifier: Apache-2.0
// What the parser keeps of a module, and how it refuses one.
#include <criterion/criterion.h>

#include "softgpu/compiler.h"

using namespace rgpu;
using namespace rgpu::softgpu;

namespace {

const std::string kHead = ".version 9.0\n.target sm_80, debug\n.address_size 64\n";

void refuses(const std::string &text, ErrorKind kind, const char *part)
{
    auto m = PtxModule::parse(kHead + text);
    cr_assert(!m.has_value(), "it is taken: %s", text.c_str());
    cr_expect(m.error().kind == kind, "%s: kind %s", m.error().text.c_str(), name(m.error().kind));
    cr_expect(m.error().text.find(part) != std::string::npos, "'%s' is not in: %s", part,
              m.error().text.c_str());
}

}  // namespace

Test(ptx_parser, tables_of_a_module)
{
    auto m = PtxModule::parse(kHead + R"(
.file 1 "a.cu", 1, 2
.extern .func (.param .b32 func_retval0) vprintf (.param .b64 a, .param .b64 b) ;
.visible .global .align 4 .u32 counter = 7;
.const .align 8 .b8 table[16];
.visible .global .attribute(.managed) .align 8 .f64 managed[2] = {0d3FF0000000000000, 2.5};
.global .align 8 .u64 refs[2] = {counter, generic(table)+8};
.extern .shared .align 16 .b8 dyn[];
.shared .align 8 .b8 both[24];
.weak .entry one(.param .u32 a, .param .u64 .ptr .global .align 4 b,
    .param .align 16 .b8 c[20], .param .u8 d)
.maxntid 128, 2, 1
.minnctapersm 2
{ .loc 1 2 3
  .reg .b32 %r<3>;  // comment
  .shared .align 4 .b32 demoted[10];
  mov.u32 %r1, demoted; /* two
  lines */ mov.u32 %r2, both; mov.u32 %r2, dyn; ret; }
.visible .entry two() .reqntid 32 { ret; }
.section .debug_str { .b8 1 }
)" + std::string(1, '\0'));
    cr_assert(m.has_value(), "%s", m ? "" : m.error().text.c_str());
    const PtxModule &p = **m;
    cr_assert_eq(p.ptx_version(), 90);
    cr_assert_eq(p.target(), 80);
    cr_assert_eq(p.kernels().size(), 2u);
    const Kernel &one = p.kernels()[0];
    cr_assert_str_eq(one.name.c_str(), "one");
    size_t want[][2] = {{0, 4}, {8, 8}, {16, 20}, {36, 1}};
    cr_assert_eq(one.parameters.size(), 4u);
    for (int i = 0; i < 4; ++i) {
        cr_expect_eq(one.parameters[i].offset, want[i][0]);
        cr_expect_eq(one.parameters[i].size, want[i][1]);
    }
    cr_expect_eq(one.parameter_bytes, 37u);
    cr_expect_eq(one.max_threads.x, 128u);
    cr_expect_eq(one.max_threads.y, 2u);
    cr_expect_eq(p.kernels()[1].required_threads.x, 32u);
    cr_expect_eq(one.static_shared, 64u, "%u", one.static_shared);
    cr_expect_eq(p.kernels()[1].static_shared, 0u);
    cr_assert_eq(p.globals().size(), 4u);
    cr_expect_eq(p.globals()[0].init[0], 7);
    cr_expect(p.globals()[0].linkage == Linkage::visible);
    cr_expect(p.globals()[1].constant);
    cr_expect(p.globals()[2].managed);
    cr_expect_eq(p.globals()[2].init[15], 0x40);
    cr_assert_eq(p.globals()[3].addresses.size(), 2u);
    cr_expect_str_eq(p.globals()[3].addresses[1].symbol.c_str(), "table");
    cr_expect_eq(p.globals()[3].addresses[1].addend, 8);
    cr_expect_eq(p.globals()[3].addresses[1].offset, 8u);
}

Test(ptx_parser, kernels_keep_the_registers_that_they_ask_for)
{
    // Enough virtual registers for an estimate of more than 57, as numba's own test wants it.
    const std::string body = "{ .reg .b64 %rd<400>; ret; }\n";
    auto m = PtxModule::parse(kHead + ".visible .entry free() " + body +
                              ".visible .entry few() .maxnreg 24 " + body +
                              ".visible .entry bounds() .maxntid 256, 2 .minnctapersm 4 " + body +
                              ".visible .entry tight() .maxntid 1024 .minnctapersm 8 " + body +
                              ".visible .entry one() .maxntid 128 .maxnreg 50 " + body);
    cr_assert(m.has_value(), "%s", m ? "" : m.error().text.c_str());
    const auto &k = (*m)->kernels();
    cr_expect_gt(k[0].registers, 57u);
    cr_expect_eq(k[1].registers, 24u);
    cr_expect_eq(k[2].registers, 32u, "65536 / (512 * 4)");
    cr_expect_eq(k[3].registers, 16u, "more blocks than fit");
    cr_expect_eq(k[4].registers, 50u);

    auto limited = PtxModule::limit_registers(kHead + ".func f() { ret; }\n.visible .entry a() " +
                                                  body + ".visible .entry b() .maxnreg 20 " + body,
                                              38);
    cr_assert(limited.has_value());
    auto again = PtxModule::parse(*limited);
    cr_assert(again.has_value(), "%s", again ? "" : again.error().text.c_str());
    cr_expect_eq((*again)->kernels()[0].registers, 38u);
    cr_expect_eq((*again)->kernels()[1].registers, 20u);
    cr_expect(!PtxModule::limit_registers("not PTX", 38).has_value());
}

Test(ptx_parser, knows_every_fence)
{
    std::string body;
    for (const char *scope : {"cta", "cluster", "gpu", "sys"}) {
        for (const char *order : {"sc", "acq_rel", "acquire", "release"})
            body += std::string("fence.") + order + "." + scope + ";\n";
    }
    for (const char *line :
         {"membar.cta;", "membar.gl;", "membar.sys;", "fence.mbarrier_init.release.cluster;",
          "fence.proxy.alias;", "fence.proxy.async;", "fence.proxy.async.global;",
          "fence.proxy.async.shared::cta;", "fence.proxy.async.shared::cluster;",
          "fence.acquire.sync_restrict::shared::cluster.cluster;",
          "fence.release.sync_restrict::shared::cta.cluster;",
          "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;",
          "fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;"})
        body += std::string(line) + "\n";
    auto m = PtxModule::parse(kHead + ".visible .entry k() {\n" + body + "ret; }\n");
    cr_assert(m.has_value(), "%s", m ? "" : m.error().text.c_str());
}

// Programs carry instructions in branches that never run.
Test(ptx_parser, takes_an_instruction_that_it_does_not_know)
{
    unsetenv("RGPU_SOFTGPU_STRICT");
    const char *line = "multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%f0,%f1,%f2,%f3}, [%d];";
    auto m = PtxModule::parse(kHead + ".entry k() { .reg .f32 %f<4>; .reg .b64 %d;\n" + line +
                              "\nret; }\n");
    cr_assert(m.has_value(), "%s", m ? "" : m.error().text.c_str());
}

Test(ptx_parser, refuses_with_line_and_text)
{
    setenv("RGPU_SOFTGPU_STRICT", "1", 1);
    refuses(".entry k() { .reg .b32 %r1;\n frobnicate.b32 %r1;\n}", ErrorKind::unsupported,
            "line 5: 'frobnicate.b32 %r1'");
    refuses(".entry k() { .reg .b32 %r1;\n\n wgmma.fence.sync.aligned; }", ErrorKind::unsupported,
            "line 6: 'wgmma.fence.sync.aligned'");
    refuses(".entry k() { .reg .b32 %r1; add.f99 %r1, %r1, %r1; }", ErrorKind::unsupported,
            "add.f99 %r1, %r1, %r1");
    refuses(".entry k() { .reg .b32 %r1; add.rn.s32 %r1, %r1, %r1; }", ErrorKind::unsupported,
            "add.rn.s32");
    refuses(".entry k() { .reg .b32 %r1; add.s32 %r1, %r1; }", ErrorKind::unsupported,
            "number of operands");
    refuses(".entry k() { .reg .b32 %r1; mov.u32 %r1, %nonsense; }", ErrorKind::unsupported,
            "special register");
    refuses(".entry k() { .reg .b32 %r1; add.s32 %r1, %r1, -%r1; }", ErrorKind::invalid, "minus");
    refuses(".entry k() { .reg .b32 %r1; mov.b32 %r1, -%tid.x; }", ErrorKind::invalid,
            "register expected");
    refuses(".entry k() { .reg .b32 %r<5>; vmad.u32.u32.u32.po %r1, -%r2, %r3, %r4; }",
            ErrorKind::invalid, ".po");
    refuses(".entry k() { .reg .b32 %r1; mov.b32 %r1, --5; }", ErrorKind::invalid, "");
    refuses(".entry k() { @%p ret; }", ErrorKind::invalid, "%p");
    refuses(".entry k() { ret }", ErrorKind::invalid, "line 4");
    refuses(".entry k() { ret;", ErrorKind::invalid, "");
    refuses(".entry k() { /* ret; }", ErrorKind::invalid, "");
    refuses(".global .u32 x[2] = {1, 2, 3};", ErrorKind::invalid, "too many");
    refuses(".frob 3", ErrorKind::unsupported, ".frob");
    refuses(".global .u32 x = 08;", ErrorKind::invalid, "number expected");
}

Test(ptx_parser, refuses_what_is_not_ptx)
{
    for (const char *text :
         {"", "int main() {}",
          "\x7f"
          "ELF",
          ".version 42.0\n.target sm_80\n", ".version 222222222.0\n.target sm_80\n",
          ".version -8.5\n.target sm_80\n"}) {
        auto m = PtxModule::parse(text);
        cr_assert(!m.has_value(), "%s", text);
    }
}

// Whatever is cut off or overwritten: an error or a module, never a crash.
Test(ptx_parser, survives_damage)
{
    const std::string text =
        kHead +
        ".global .align 8 .u64 t[2] = {f, generic(t)+8};\n.func (.param .b32 r) f(.param .b32 a) { "
        ".reg .b32 %a<4>; ld.param.b32 %a1, [a+0]; L: st.param.b32 [r], %a1; @!%p bra L; ret; }\n"
        ".entry k(.param .u64 p) { .reg .pred %p<2>; .reg .b32 %a<3>; { .param .b32 x; call (x), "
        "f, (%a1); } setp.lt.and.s32 %p1|%p0, %a1, 3, !%p0; ld.global.v2.u32 {%a1, _}, [%a2+-8]; "
        "ret; }\n";
    for (size_t cut = 0; cut < text.size(); ++cut) (void)PtxModule::parse(text.substr(0, cut));
    uint32_t state = 1;
    for (int i = 0; i < 3000; ++i) {
        std::string damaged = text;
        for (int k = 0; k < 3; ++k) {
            state = state * 1664525 + 1013904223;
            damaged[(state >> 8) % damaged.size()] = "{}()[];,:.%@!+-<>|0x\"/*a \n"[state % 27];
        }
        (void)PtxModule::parse(damaged);
    }
}

Test(ptx_parser, cache_key_follows_what_the_kernel_is_made_of)
{
    auto key = [](const std::string &text, const char *kernel = "k") {
        auto m = PtxModule::parse(kHead + text);
        cr_assert(m.has_value(), "%s", m ? "" : m.error().text.c_str());
        return (*m)->cache_key(kernel);
    };
    std::string f = ".func f() { ret; }\n", k = ".entry k() { call f; ret; }\n";
    std::string base = key(f + k);
    cr_assert_eq(base.size(), 64u);
    cr_assert(base == key(f + k + ".entry other() { ret; }"));
    cr_assert(base != key(".func f() { trap; }\n" + k));
    cr_assert(base != key(f + ".entry k() { call f; call f; ret; }"));
}
