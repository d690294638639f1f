// SPDX-License-Identifier: Apache-2.0
// Kernels that may call many functions through their addresses: each function is compiled at its
// first call, and no other one is.
#include "lower_support.h"

using namespace lower_test;

namespace {

// So many instructions on %a that functions with them are not compiled with the kernel.
std::string long_work()
{
    std::string s;
    for (int i = 0; i < 1500; ++i) s += "mad.lo.u32 %a, %a, 3, %b; xor.b32 %a, %a, %b;\n";
    return s;
}

uint64_t long_work_of(uint32_t a, uint32_t b)
{
    for (int i = 0; i < 1500; ++i) a = (a * 3 + b) ^ b;
    return a;
}

// (u32) -> u32, of `body`, which begins with the argument in %a and ends with the result there.
std::string function(const std::string &name, const std::string &body,
                     const std::string &before = "")
{
    return ".func (.param .b32 result) " + name +
           "(.param .b32 x)\n{ .reg .b32 %a, %b, %c; .reg .b64 %d; .reg .pred %p;" + before +
           " ld.param.b32 %a, [x]; mov.u32 %b, 7;\n" + body +
           " st.param.b32 [result], %a; ret; }\n";
}

// Kernel k calls with each thread's number the function that the thread's word of `which` says, and
// stores the result; -1 is an address of no function. It begins with `first`.
std::string module(const std::vector<std::pair<std::string, std::string>> &functions,
                   const std::string &first = "")
{
    std::string text = kHead + ".shared .align 4 .b8 words[4096], own[64];\n", table;
    for (const auto &[name, definition] : functions) {
        text += definition;
        table += (table.empty() ? "" : ", ") + name;
    }
    return text + ".global .align 8 .u64 table[" + std::to_string(functions.size()) + "] = {" +
           table +
           "};\n.visible .entry k(.param .u64 out, .param .u64 which)\n{\n"
           " .reg .b64 %o<9>; .reg .b32 %r<9>; .reg .pred %p<3>;\n" +
           first +
           " mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x;\n"
           " mad.lo.u32 %r3, %r1, %r2, %r0; ld.param.u64 %o0, [out]; ld.param.u64 %o1, [which];\n"
           " mul.wide.u32 %o2, %r3, 8; add.u64 %o0, %o0, %o2; add.u64 %o1, %o1, %o2;\n"
           " ld.global.u64 %o3, [%o1]; setp.eq.s64 %p0, %o3, -1; mov.u64 %o4, 4096;\n"
           " @%p0 bra GO; shl.b64 %o3, %o3, 3; mov.u64 %o5, table; add.u64 %o5, %o5, %o3;\n"
           " ld.global.u64 %o4, [%o5];\nGO:\n"
           " { .param .b32 p0; .param .b32 r0; st.param.b32 [p0], %r0;\n"
           " proto: .callprototype (.param .b32 _) _ (.param .b32 _);\n"
           " call (r0), %o4, (p0), proto; ld.param.b32 %r4, [r0]; }\n"
           " cvt.u64.u32 %o6, %r4; st.global.u64 [%o0], %o6; ret;\n}\n";
}

struct Run {
    explicit Run(const std::string &text) : parsed(parse(text)), globals(*parsed) {}

    std::optional<Fault> operator()(uint32_t blocks, uint32_t threads,
                                    const std::function<uint64_t(uint64_t)> &choose)
    {
        out.assign(blocks * threads, 0xEEEE);
        std::vector<uint64_t> which;
        for (uint64_t i = 0; i < out.size(); ++i) which.push_back(choose(i));
        return launch(*parsed, globals, "k", {address(out), address(which)},
                      {{blocks, 1, 1}, {threads, 1, 1}}, nullptr, &per_thread, &functions);
    }

    std::shared_ptr<const PtxModule> parsed;
    Globals globals;
    Functions functions;
    std::vector<uint64_t> out;
    bool per_thread = false;
};

void expect_no_fault(const std::optional<Fault> &fault)
{
    cr_assert(!fault, "%s", fault ? fault->text.c_str() : "");
}

}  // namespace

Test(lower_late, threads_of_a_warp_call_different_functions)
{
    Run run(module({{"twice", function("twice", "add.u32 %a, %a, %a;")},
                    {"worked", function("worked", long_work())},
                    {"never", function("never", long_work())}}));
    expect_no_fault(run(8, 96, [](uint64_t i) { return i % 2; }));
    for (uint32_t i = 0; i < run.out.size(); ++i)
        cr_assert_eq(run.out[i], i % 2 ? long_work_of(i % 96, 7) : i % 96 * 2, "thread %u", i);
}

Test(lower_late, compiles_what_is_called_and_that_once)
{
    Run run(module({{"one", function("one", long_work())},
                    {"two", function("two", long_work())},
                    {"three", function("three", long_work())}}));
    expect_no_fault(run(64, 64, [](uint64_t) { return 1; }));
    cr_assert_eq(run.functions.made.size(), 1u);
    cr_assert_eq(run.functions.made["two"], 1u);
    // The kernel holds none of them.
    auto kernel = run.parsed->compile("k");
    cr_assert(kernel.has_value());
    cr_assert_lt(kernel->object.size(), run.functions.bytes["two"] / 2);
}

Test(lower_late, few_small_functions_stay_in_the_kernel)
{
    Run run(module({{"twice", function("twice", "add.u32 %a, %a, %a;")},
                    {"next", function("next", "add.u32 %a, %a, 1;")}}));
    expect_no_fault(run(2, 64, [](uint64_t i) { return i % 2; }));
    for (uint32_t i = 0; i < run.out.size(); ++i)
        cr_assert_eq(run.out[i], i % 2 ? i % 64 + 1 : i % 64 * 2);
    cr_assert(run.functions.made.empty());
    cr_assert(!run.per_thread, "no thread of it waits");
}

// Every thread stores a word, and reads the next one's behind a barrier.
Test(lower_late, functions_share_memory_and_meet)
{
    const std::string meets =
        "mov.u32 %b, words; shl.b32 %c, %a, 2; add.u32 %b, %b, %c; st.shared.u32 [%b], %a;\n"
        "bar.sync 0; xor.b32 %c, %a, 1; shl.b32 %c, %c, 2; mov.u32 %b, words; add.u32 %b, %b, %c;\n"
        "ld.shared.u32 %a, [%b]; shfl.sync.bfly.b32 %a, %a, 2, 31, -1;\n";
    Run run(module({{"meets", function("meets", meets)},
                    {"long1", function("long1", long_work())},
                    {"long2", function("long2", long_work())}}));
    expect_no_fault(run(4, 128, [](uint64_t) { return 0; }));
    for (uint32_t i = 0; i < run.out.size(); ++i) cr_assert_eq(run.out[i], (i % 128) ^ 3);
}

// What the kernel must know of functions that it does not hold.
Test(lower_late, functions_end_threads_and_ask_who_is_with_them)
{
    const std::string leaves = "setp.lt.u32 %p, %a, 8; @%p exit;\n", asks = "activemask.b32 %a;\n";
    Run run(module({{"leaves", function("leaves", leaves)},
                    {"asks", function("asks", asks)},
                    {"long1", function("long1", long_work())},
                    {"long2", function("long2", long_work())}}));
    expect_no_fault(run(1, 32, [](uint64_t i) { return i < 16 ? 0 : 1; }));
    for (uint32_t i = 0; i < 32; ++i)
        cr_assert_eq(run.out[i],
                     i < 8    ? 0xEEEE
                     : i < 16 ? i
                              : 0xFFFF0000,
                     "thread %u: %#lx", i, run.out[i]);
}

// By name, and through an address in its turn.
Test(lower_late, functions_call_others)
{
    const std::string call =
        "{ .param .b32 p0; .param .b32 r0; st.param.b32 [p0], %a; call (r0), below, (p0);\n"
        "ld.param.b32 %a, [r0]; }\n"
        "mov.u64 %d, long1; { .param .b32 p0; .param .b32 r0; st.param.b32 [p0], %a;\n"
        "other: .callprototype (.param .b32 _) _ (.param .b32 _);\n"
        "call (r0), %d, (p0), other; ld.param.b32 %a, [r0]; }\n";
    Run run(module({{"below", function("below", "add.u32 %a, %a, 100;")},
                    {"long1", function("long1", long_work())},
                    {"long2", function("long2", long_work())},
                    {"calls", function("calls", call)}}));
    expect_no_fault(run(2, 32, [](uint64_t) { return 3; }));
    for (uint32_t i = 0; i < run.out.size(); ++i)
        cr_assert_eq(run.out[i], long_work_of(i % 32 + 100, 7));
    cr_assert_eq(run.functions.made.size(), 2u, "`below` lies in the object of `calls`");
}

Test(lower_late, only_the_kernel_that_reaches_a_bad_function_fails)
{
    Run run(module({{"good", function("good", "add.u32 %a, %a, 1;")},
                    {"bad", function("bad", "call (%a), %d, (%b);" + long_work())},
                    {"strange", function("strange", "frobnicate.u32 %a, %b;" + long_work())}}));
    expect_no_fault(run(2, 32, [](uint64_t) { return 0; }));
    auto fault = run(2, 32, [](uint64_t i) { return i == 40 ? 1 : 0; });
    cr_assert(fault && fault->kind == FaultKind::illegal_instruction);
    cr_assert(fault->text.find("needs a prototype") != std::string::npos, "%s",
              fault->text.c_str());
    cr_assert(fault->text.find("block (1,0,0), thread (8,0,0)") != std::string::npos, "%s",
              fault->text.c_str());
    fault = run(2, 32, [](uint64_t i) { return i == 40 ? 2 : 0; });
    cr_assert(fault && fault->kind == FaultKind::illegal_instruction);
    cr_assert(fault->text.find("frobnicate") != std::string::npos, "%s", fault->text.c_str());
}

Test(lower_late, an_address_of_no_function_ends_the_grid)
{
    Run run(module(
        {{"long1", function("long1", long_work())}, {"long2", function("long2", long_work())}}));
    auto fault = run(1, 32, [](uint64_t i) { return i == 3 ? uint64_t(-1) : 0; });
    cr_assert(fault && fault->kind == FaultKind::trap, "%s", fault ? fault->text.c_str() : "none");
}

// A function's name in the cache follows from its own text, and from where the kernel has put the
// shared memory that it uses.
Test(lower_late, functions_have_keys_of_their_own)
{
    const std::string shared = "mov.u32 %b, words; ld.shared.u32 %a, [%b];" + long_work();
    auto text = [&](const char *change, const char *first) {
        return module(
            {{"one", function("one", shared)}, {"two", function("two", long_work() + change)}},
            first);
    };
    auto parsed = parse(text("", "")), changed = parse(text("add.u32 %a, %a, 1;", "")),
         moved = parse(text("", "mov.u32 %r0, own; st.shared.u32 [%r0], %r0;"));
    cr_assert_neq(parsed->function_key("k", "one"), parsed->function_key("k", "two"));
    cr_assert_eq(parsed->function_key("k", "one"), changed->function_key("k", "one"));
    cr_assert_neq(parsed->function_key("k", "two"), changed->function_key("k", "two"));
    cr_assert_neq(parsed->cache_key("k"), parsed->function_key("k", "one"));
    cr_assert_neq(parsed->function_key("k", "one"), moved->function_key("k", "one"));
    cr_assert_eq(parsed->function_key("k", "two"), moved->function_key("k", "two"));
}
