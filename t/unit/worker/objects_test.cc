// SPDX-License-Identifier: Apache-2.0
#include "worker/session/objects.h"

#include <criterion/criterion.h>

using namespace rgpu;
using worker::Objects;

namespace {

CUgraphNode node(uintptr_t n) { return reinterpret_cast<CUgraphNode>(n); }

}  // namespace

// A client of several servers adds a multiple of calls::kFirstServerHandle to the numbers that each
// of them gave.
Test(objects, numbers_that_the_server_gave_are_known_when_a_client_has_moved_them)
{
    Objects objects;
    const calls::HandleId first = objects.number(node(0x1000)),
                          second = objects.number(node(0x2000));
    cr_assert_eq(first, calls::kFirstServerHandle);
    for (calls::HandleId servers : {0u, 1u, 31u}) {
        CUgraphNode found = nullptr;
        cr_assert_eq(objects.get(second + servers * calls::kFirstServerHandle, found),
                     CUDA_SUCCESS);
        cr_assert_eq(found, node(0x2000));
    }
    objects.end(second + 3 * calls::kFirstServerHandle);
    CUgraphNode found = nullptr;
    cr_assert_eq(objects.get(second, found), CUDA_ERROR_INVALID_VALUE);
    cr_assert_not(objects.known(node(0x2000)));
    cr_assert_eq(objects.get(first, found), CUDA_SUCCESS);
    // The number may be used again, as the worker's own.
    cr_assert_eq(objects.number(node(0x3000)), second);
}

Test(objects, functions_end_with_their_module_under_moved_numbers_too)
{
    Objects objects;
    const auto module = reinterpret_cast<CUmodule>(uintptr_t{0x10});
    const auto function = reinterpret_cast<CUfunction>(uintptr_t{0x20});
    const calls::HandleId m = objects.number(module), f = objects.number(function),
                          moved = calls::kFirstServerHandle;
    objects.set_function(f + moved, m + moved, {{0, 4}});
    cr_assert_not_null(objects.parameters(f));
    cr_assert_not_null(objects.parameters(f + 2 * moved));
    objects.end(m + moved);
    cr_assert_null(objects.parameters(f));
    cr_assert_not(objects.known(function));
}
