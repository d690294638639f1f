// SPDX-License-Identifier: Apache-2.0
// Linking several modules.
#include "lower_support.h"

using namespace lower_test;

namespace {

uint64_t result_of(const std::vector<std::string> &modules)
{
    auto text = PtxModule::link(modules);
    cr_assert(text.has_value(), "%s", text ? "" : text.error().text.c_str());
    auto m = parse(*text);
    Globals globals(*m);
    std::vector<uint64_t> out(1);
    auto fault = launch(*m, globals, "k", {address(out)}, {});
    cr_assert(!fault);
    return out[0];
}

const std::string kMain =
    ".version 8.0\n.target sm_75, debug\n.address_size 64\n.extern .global .align 4 .u32 "
    "shared_value;\n.global .align 4 .u32 mine = 5;\n"
    ".extern .func (.param .b32 r) outside(.param .b32 x);\n"
    ".func (.param .b32 r) helper(.param .b32 x) { .reg .b32 %a, %b; ld.param.b32 %a, [x]; "
    "ld.global.u32 %b, [mine]; add.u32 %a, %a, %b; st.param.b32 [r], %a; ret; }\n"
    ".visible .entry k(.param .u64 out) { .reg .b64 %o; .reg .b32 %r<5>; .reg .b64 %v; "
    "ld.param.u64 %o, [out]; ld.global.u32 %r0, [shared_value];\n"
    "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r0; call (b), outside, (a); ld.param.b32 "
    "%r1, [b]; }\n"
    "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), helper, (a); ld.param.b32 "
    "%r2, [b]; } cvt.u64.u32 %v, %r2; st.global.u64 [%o], %v; ret; }\n";
const std::string kOther =
    ".version 8.5 .target sm_80 .address_size 64\n.visible .global .align 4 .u32 shared_value = "
    "100;\n.global .align 4 .u32 mine = 1000;\n"
    ".func (.param .b32 r) helper(.param .b32 x) { .reg .b32 %a, %b; ld.param.b32 %a, [x]; "
    "ld.global.u32 %b, [mine]; add.u32 %a, %a, %b; st.param.b32 [r], %a; ret; }\n"
    ".visible .func (.param .b32 r) outside(.param .b32 x) { .reg .b32 %a; ld.param.b32 %a, [x]; { "
    ".param .b32 a; .param .b32 b; st.param.b32 [a], %a; call (b), helper, (a); ld.param.b32 %a, "
    "[b]; } st.param.b32 [r], %a; ret; }\n";

}  // namespace

Test(ptx_link, names_of_one_file_stay_apart)
{
    cr_assert_eq(result_of({kMain, kOther}), 100 + 1000 + 5);
    cr_assert_eq(result_of({kOther, kMain}), 100 + 1000 + 5);
    auto m = parse(*PtxModule::link({kMain, kOther}));
    cr_assert_eq(m->ptx_version(), 85);
    cr_assert_eq(m->globals().size(), 3u);
}

Test(ptx_link, weak_definitions_meet_and_strong_ones_do_not)
{
    std::string weak = ".version 8.0\n.target sm_80\n.address_size 64\n.weak .func f() { ret; "
                       "}\n.weak .entry e() { call f, (); ret; }\n.common .global .u32 c;\n";
    auto m = parse(*PtxModule::link({weak, weak}));
    cr_assert_eq(m->kernels().size(), 1u);
    cr_assert_eq(m->globals().size(), 1u);
    auto twice = PtxModule::link({kOther, kOther});
    cr_assert(!twice.has_value());
    cr_assert(twice.error().text.find("more than one module") != std::string::npos);
    cr_assert(!PtxModule::link({kMain, "not PTX"}).has_value());
}
