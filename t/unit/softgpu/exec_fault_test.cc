// SPDX-License-Identifier: Apache-2.0
// What a kernel does wrong ends its grid with the right words, and nothing else.
#include <csetjmp>
#include <csignal>

#include <sys/mman.h>

#include "exec_support.h"

using namespace exec_test;

namespace {

bool contains(const std::string &text, const char *part)
{
    return text.find(part) != std::string::npos;
}

// A page that nobody may touch.
struct Forbidden {
    void *page = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ~Forbidden() { munmap(page, 4096); }
};

// The engine works as before.
void expect_sound()
{
    std::vector<uint32_t> out(3 * 64, ~0u);
    launch_ok(*load("rotate"), {.grid = {3, 1, 1}, .block = {64, 1, 1}, .shared = 256}, out.data(),
              uint32_t{5});
    for (uint32_t i = 0; i < out.size(); ++i) cr_assert_eq(out[i], (i % 64 + 5) % 64);
}

}  // namespace

Test(exec_fault, illegal_addresses_name_address_block_and_thread)
{
    Forbidden forbidden;
    auto kernel = load("write_address");
    for (int i = 0; i < 20; ++i) {
        Fault fault = launch_fault(*kernel, {.grid = {4, 1, 1}, .block = {8, 4, 1}}, forbidden.page,
                                   uint64_t{32 + 13});
        cr_assert_eq(fault.kind, FaultKind::illegal_address);
        cr_assert_eq(fault.address, reinterpret_cast<uint64_t>(forbidden.page));
        cr_assert(contains(fault.text, "writes to"), "%s", fault.text.c_str());
        cr_assert(contains(fault.text, "block (1,0,0), thread (5,1,0)"), "%s", fault.text.c_str());
    }
    cr_assert_eq(launch_fault(*kernel, {}, uint64_t{0}, uint64_t{0}).address, 0u);
    expect_sound();
}

Test(exec_fault, in_a_block_kernel_too)
{
    Forbidden forbidden;
    auto kernel = load("read_address_block", false);
    Fault fault = launch_fault(*kernel, {.grid = {10, 10, 1}}, forbidden.page, uint64_t{23});
    cr_assert_eq(fault.kind, FaultKind::illegal_address);
    cr_assert_eq(fault.address, reinterpret_cast<uint64_t>(forbidden.page));
    cr_assert(contains(fault.text, "reads"), "%s", fault.text.c_str());
    cr_assert(contains(fault.text, "block (3,2,0)"), "%s", fault.text.c_str());
    expect_sound();
}

Test(exec_fault, an_address_that_is_none)
{
    Fault fault =
        launch_fault(*load("write_address"), {}, uint64_t{0x8000'0000'0000'1234}, uint64_t{3});
    cr_assert_eq(fault.kind, FaultKind::illegal_address);
    cr_assert_eq(fault.address, 0x8000'0000'0000'1234u, "%s", fault.text.c_str());
}

Test(exec_fault, misaligned_vectors)
{
    alignas(16) float data[8] = {};
    auto kernel = load("misaligned_vector");
    launch_ok(*kernel, {.block = {1, 1, 1}}, data);
    Fault fault = launch_fault(*kernel, {.block = {1, 1, 1}}, data + 1);
    cr_assert_eq(fault.kind, FaultKind::misaligned_address, "%s", fault.text.c_str());
    cr_assert_eq(fault.address, reinterpret_cast<uint64_t>(data + 1));
    fault = launch_fault(*load("misaligned_reported"), {}, uint64_t{0x1001});
    cr_assert_eq(fault.kind, FaultKind::misaligned_address);
    cr_assert_eq(fault.address, 0x1001u);
}

Test(exec_fault, past_the_end_of_shared_memory)
{
    auto kernel = load("shared_overrun");
    launch_ok(*kernel, {.shared = 4096}, uint32_t{4095});
    Fault fault = launch_fault(*kernel, {.shared = 4096}, uint32_t{4096});
    cr_assert_eq(fault.kind, FaultKind::illegal_address);
    cr_assert_eq(launch_fault(*kernel, {.shared = 0}, uint32_t{0}).kind,
                 FaultKind::illegal_address);
}

Test(exec_fault, arithmetic_and_illegal_instructions)
{
    int32_t numbers[] = {0, 7, 0};
    cr_assert_eq(launch_fault(*load("divide"), {.block = {1, 1, 1}}, numbers).kind,
                 FaultKind::illegal_instruction);
    cr_assert_eq(launch_fault(*load("illegal"), {}).kind, FaultKind::illegal_instruction);
    expect_sound();
}

Test(exec_fault, traps_with_others_at_a_barrier)
{
    Fault fault = launch_fault(*load("trap"), {.grid = {8, 1, 1}, .block = {64, 1, 1}},
                               uint64_t{64 * 6 + 63});
    cr_assert_eq(fault.kind, FaultKind::trap);
    cr_assert(contains(fault.text, "block (6,0,0), thread (63,0,0)"), "%s", fault.text.c_str());
    expect_sound();
}

Test(exec_fault, assertions_read_as_cuda_prints_them)
{
    Fault fault = launch_fault(*load("assertion"), {.grid = {2, 1, 1}});
    cr_assert_eq(fault.kind, FaultKind::assertion);
    cr_assert_str_eq(
        fault.text.c_str(),
        "kernel.cu:42: void k(int): block: [1,0,0], thread: [5,0,0] Assertion `x > 0` failed.");
    fault = launch_fault(*load("assertion_block", false), {});
    cr_assert_str_eq(fault.text.c_str(),
                     "a.cu:3: f: block: [0,0,0], thread: [7,0,0] Assertion `ok` failed.");
}

Test(exec_fault, a_full_stack)
{
    uint64_t result = 0;
    // What fits in the stack that was asked for, fits.
    launch_ok(*load("recurse", true, 700 * 1024), {.block = {4, 1, 1}}, &result, uint64_t{1000});
    launch_ok(*load("recurse_block", false, 700 * 1024), {.grid = {8, 1, 1}}, &result,
              uint64_t{1000});
    Fault fault = launch_fault(*load("recurse"), {.grid = {4, 1, 1}}, &result, uint64_t{1} << 40);
    cr_assert_eq(fault.kind, FaultKind::stack_overflow, "%s", fault.text.c_str());
    fault = launch_fault(*load("recurse_block", false), {.grid = {4, 1, 1}}, &result,
                         uint64_t{1} << 40);
    cr_assert_eq(fault.kind, FaultKind::stack_overflow, "%s", fault.text.c_str());
    expect_sound();
}

Test(exec_fault, stops_blocks_that_spin_or_wait)
{
    for (auto name : {"fault_stops_spinners", "fault_stops_barriers"}) {
        auto kernel = load(name);
        cr_assert_eq(launch_fault(*kernel, {.grid = {20, 1, 1}, .cooperative = true}).kind,
                     FaultKind::trap);
        cr_assert_eq(launch_fault(*kernel, {.grid = {4, 1, 1}}).kind, FaultKind::trap);
    }
    expect_sound();
}

Test(exec_fault, refuses_impossible_shapes)
{
    auto kernel = load("empty_thread");
    cr_assert_eq(launch_fault(*kernel, {.block = {1025, 1, 1}}).kind, FaultKind::out_of_resources);
    cr_assert_eq(launch_fault(*kernel, {.block = {32, 33, 1}}).kind, FaultKind::out_of_resources);
    cr_assert_eq(launch_fault(*kernel, {.block = {0, 1, 1}}).kind, FaultKind::out_of_resources);
    cr_assert_eq(launch_fault(*kernel, {.grid = {0, 1, 1}}).kind, FaultKind::out_of_resources);
}

#ifndef __SANITIZE_ADDRESS__
#ifndef __SANITIZE_THREAD__
// Outside of kernels a fault is the program's own, and takes the way it took before.
Test(exec_fault, leaves_the_programs_own_faults_alone, .signal = SIGSEGV)
{
    expect_sound();
    *static_cast<volatile int *>(Forbidden().page) = 1;
}

namespace {
sigjmp_buf *jump;
}

Test(exec_fault, hands_faults_to_an_earlier_handler)
{
    static sigjmp_buf here;
    jump = &here;
    signal(SIGSEGV, [](int) { siglongjmp(*jump, 1); });
    expect_sound();
    if (sigsetjmp(here, 1) == 0) {
        Forbidden f;
        *static_cast<volatile int *>(f.page) = 1;
        cr_assert_fail("nothing happened");
    }
    expect_sound();
}
#endif
#endif
