// SPDX-License-Identifier: Apache-2.0
// The table of functions that kernels call through their addresses: each is made once, whoever
// comes first, and what failed stays failed.
#include "exec_support.h"

#include <atomic>
#include <stdexcept>
#include <thread>

#include "softgpu/exec/function_table.h"

using namespace exec_test;
using rgpu::softgpu::exec::FunctionTable;

namespace {

constexpr uint64_t kKnown = 0x7F00000000000010, kOther = kKnown + (uint64_t{64} << 4);

}  // namespace

Test(exec_function_table, many_threads_make_a_function_once)
{
    std::atomic<unsigned> made = 0;
    FunctionTable table(
        [&](uint64_t, uint64_t) -> rgpu::Result<std::shared_ptr<const LoadedKernel>> {
            ++made;
            return load("relocations");
        });
    load("relocations");  // its object is there before the threads begin
    std::atomic<uint64_t> sum = 0, first = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t)
        threads.emplace_back([&, t] {
            // All of them find kKnown and kOther, which share a chain.
            for (uint64_t address : {kKnown, kOther}) {
                uint64_t code = table.find(address, 1);
                if (!code) {
                    auto m = table.make(address, 1);
                    code = m ? *m : 0;
                }
                if (t == 0 && address == kKnown) first = code;
                if (code && code == table.find(address, 1)) ++sum;
            }
        });
    for (std::thread &t : threads) t.join();
    cr_assert_eq(sum, 16u);
    cr_assert_eq(made, 2u);
    cr_assert_neq(first, table.find(kOther, 1));
    cr_assert_eq(table.find(kKnown, 2), 0u, "another signature is another function");
}

Test(exec_function_table, what_failed_fails_again_unasked)
{
    unsigned asked = 0;
    FunctionTable table(
        [&](uint64_t, uint64_t) -> rgpu::Result<std::shared_ptr<const LoadedKernel>> {
            ++asked;
            return rgpu::Error{rgpu::ErrorKind::unsupported, "not so"};
        });
    for (int i = 0; i < 3; ++i) {
        auto made = table.make(kKnown, 1);
        cr_assert(!made && made.error().kind == rgpu::ErrorKind::unsupported);
        cr_assert_eq(made.error().text, "not so");
        cr_assert_eq(table.find(kKnown, 1), 0u);
    }
    cr_assert_eq(asked, 1u);
}

Test(exec_function_table, exceptions_and_no_source_are_failures)
{
    FunctionTable throws(
        [](uint64_t, uint64_t) -> rgpu::Result<std::shared_ptr<const LoadedKernel>> {
            throw std::runtime_error("no memory at all");
        });
    auto made = throws.make(kKnown, 1);
    cr_assert(!made && made.error().kind == rgpu::ErrorKind::exhausted);
    cr_assert(made.error().text.find("no memory at all") != std::string::npos);
    FunctionTable none(nullptr);
    made = none.make(kKnown, 1);
    cr_assert(!made && made.error().kind == rgpu::ErrorKind::invalid);
}
