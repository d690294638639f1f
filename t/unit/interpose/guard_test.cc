// SPDX-License-Identifier: Apache-2.0
// No exception leaves libcuda.so.1: whatever a call throws becomes the CUresult that the table in
// result.cc says. Stands in for trace.cc, whose observing() every call passes.
#include "interpose/base/guard.h"

#include <criterion/criterion.h>
#include <pthread.h>

#include <new>
#include <stdexcept>
#include <system_error>

#include "calls/calls.h"
#include "interpose/api/trace.h"

using namespace rgpu;
using namespace rgpu::interpose;
using calls::CallId;

namespace {

void (*thrown)();

}  // namespace

namespace rgpu::interpose {

void *entry(CallId id);

bool tracing() { return false; }
bool observing()
{
    if (thrown) thrown();
    return false;
}
void trace_line(std::string_view, const std::string &, CUresult, double) {}

}  // namespace rgpu::interpose

namespace {

// Calls line `Id` as a program does that got the address from cuGetProcAddress.
template <CallId Id, class... A> CUresult call(CUresult (*)(A...))
{
    return reinterpret_cast<CUresult (*)(A...)>(entry(Id))(A{}...);
}

template <size_t... I> void each_answers(CUresult wanted, std::index_sequence<I...>)
{
    const auto one = [&]<CallId Id>() {
        const CUresult r = call<Id>(typename calls::Row<Id>::Function(nullptr));
        cr_expect(r == wanted, "%s: %d", calls::info(Id).symbol.data(), static_cast<int>(r));
    };
    (one.template operator()<static_cast<CallId>(I)>(), ...);
}

void every_call_answers(CUresult wanted, void (*with)())
{
    thrown = with;
    each_answers(wanted, std::make_index_sequence<calls::kCallCount>());
    thrown = nullptr;
}

CUresult needs_memory(int n)
{
    if (n) throw std::bad_alloc();
    return CUDA_SUCCESS;
}

CUresult after(void (*with)())
{
    return guard("a test", [&]() -> CUresult {
        with();
        return CUDA_SUCCESS;
    });
}

}  // namespace

Test(guard, every_call_holds_what_is_thrown_below_it)
{
    every_call_answers(CUDA_ERROR_OUT_OF_MEMORY, [] { throw std::bad_alloc(); });
    every_call_answers(CUDA_ERROR_OPERATING_SYSTEM,
                       [] { throw std::system_error(EAGAIN, std::system_category()); });
    every_call_answers(CUDA_ERROR_UNKNOWN, [] { throw 1; });
}

Test(guard, each_exception_has_its_result)
{
    cr_expect(after([] {}) == CUDA_SUCCESS);
    cr_expect(after([] { throw std::bad_array_new_length(); }) == CUDA_ERROR_OUT_OF_MEMORY);
    cr_expect(after([] { throw std::length_error("vector"); }) == CUDA_ERROR_OUT_OF_MEMORY);
    cr_expect(after([] { throw std::out_of_range("map"); }) == CUDA_ERROR_UNKNOWN);
    cr_expect(after([] { throw std::system_error(ENFILE, std::system_category()); }) ==
              CUDA_ERROR_OPERATING_SYSTEM);
}

Test(guard, functions_of_private_tables_have_one_too)
{
    cr_expect(guarded<needs_memory>(0) == CUDA_SUCCESS);
    cr_expect(guarded<needs_memory>(1) == CUDA_ERROR_OUT_OF_MEMORY);
}

Test(guard, a_thread_that_is_cancelled_is_not_held_up)
{
    pthread_t thread;
    const auto cancelled = [](void *) -> void * {
        after([] { pthread_exit(nullptr); });
        return reinterpret_cast<void *>(1);
    };
    cr_assert(pthread_create(&thread, nullptr, cancelled, nullptr) == 0);
    void *result = &thread;
    pthread_join(thread, &result);
    cr_expect(result == nullptr);
}

Test(guard, what_was_begun_is_undone_unless_it_is_kept)
{
    int undone = 0;
    try {
        Unless done([&] { undone++; });
        throw 1;
    } catch (int) {}
    {
        Unless done([&] { undone++; });
        done.keep();
    }
    cr_expect(undone == 1);
}
