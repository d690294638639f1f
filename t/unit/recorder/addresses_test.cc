// SPDX-License-Identifier: Apache-2.0
// Which addresses a worker takes from its client. The recorder stands for the driver: it knows
// kMemory.
#include "worker/session/addresses.h"

#include <criterion/criterion.h>
#include <unistd.h>

#include "t/unit/recorder/support.h"

using namespace rgpu;
using worker::Addresses;
using Life = Addresses::Life;

namespace {

constexpr uint64_t kPlace = 0x700000000;  // nothing of the driver's
constexpr uint64_t kMiB = 1 << 20;

CUDA_MEMCPY3D box(CUdeviceptr at, size_t pitch, size_t height, size_t y, size_t z)
{
    CUDA_MEMCPY3D c{};
    c.srcMemoryType = c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    c.srcDevice = at, c.srcPitch = pitch, c.srcHeight = height, c.srcY = y, c.srcZ = z;
    c.dstDevice = kPlace;
    c.WidthInBytes = 64, c.Height = 4, c.Depth = 2;
    return c;
}

}  // namespace

Test(addresses, memory_is_what_was_given_and_not_taken)
{
    test::use_recorder();
    Addresses a;
    cr_expect(!a.has(kPlace, 1));
    a.give(kPlace, kMiB, Life::linear);
    cr_expect(a.has(kPlace, kMiB) && a.has(kPlace + 5, 9) && a.has(kPlace + kMiB - 1, 1));
    cr_expect(!a.has(kPlace - 1, 2) && !a.has(kPlace + 1, kMiB) && !a.has(kPlace + kMiB, 1));
    cr_expect(!a.has(kPlace, ~uint64_t{0}), "round the end");
    cr_expect(a.has(kPlace + kMiB, 0), "no bytes");
    a.take(kPlace + 1);
    cr_expect(a.has(kPlace, 1), "what begins elsewhere does not end");
    a.take(kPlace);
    cr_expect(!a.has(kPlace, 1));
}

Test(addresses, pieces_that_touch_are_one)
{
    test::use_recorder();
    Addresses a;
    a.give(kPlace, kMiB, Life::lasting);
    a.give(kPlace + kMiB, kMiB, Life::lasting);
    a.give(kPlace + 3 * kMiB, kMiB, Life::lasting);
    cr_expect(a.has(kPlace + 1, 2 * kMiB - 1));
    cr_expect(!a.has(kPlace, 4 * kMiB), "there is a hole");
    a.take(kPlace, 2 * kMiB);
    cr_expect(!a.has(kPlace, 1) && !a.has(kPlace + kMiB, 1) && a.has(kPlace + 3 * kMiB, kMiB));
}

Test(addresses, what_is_given_anew_is_the_new_one)
{
    test::use_recorder();
    Addresses a;
    a.give(kPlace, 4 * kMiB, Life::linear);
    a.give(kPlace + kMiB, kMiB, Life::linear);
    cr_expect(!a.has(kPlace, 1) && a.has(kPlace + kMiB, kMiB) && !a.has(kPlace + 2 * kMiB, 1));
}

Test(addresses, linear_memory_ends_with_contexts)
{
    test::use_recorder();
    Addresses a;
    a.give(kPlace, kMiB, Life::linear);
    a.give(kPlace + kMiB, kMiB, Life::lasting);
    cr_expect(a.has(kPlace, 1));
    a.forget_linear();
    cr_expect(!a.has(kPlace, 1) && a.has(kPlace + kMiB, 1));
}

Test(addresses, the_driver_knows_what_nobody_gave)
{
    test::use_recorder();
    Addresses a;
    cr_expect(a.has(recorder::kMemory, recorder::kMemoryBytes) &&
              !a.has(recorder::kMemory, recorder::kMemoryBytes + 1));
    cr_expect(!a.has(reinterpret_cast<uint64_t>(&a), 1));
    a.give(recorder::kMemory + recorder::kMemoryBytes, kMiB, Life::linear);
    cr_expect(a.has(recorder::kMemory, recorder::kMemoryBytes + kMiB));
}

Test(addresses, boxes_lie_inside_with_their_last_row)
{
    test::use_recorder();
    Addresses a;
    a.give(kPlace, 8192, Life::linear);
    // Two slices of four rows, 512 bytes apart, the slices 8 rows: the last byte is in row 11.
    cr_expect(a.has_box(box(kPlace, 512, 8, 0, 0)));
    cr_expect(a.has_box(box(kPlace + 2496, 512, 8, 0, 0)) &&
              !a.has_box(box(kPlace + 2497, 512, 8, 0, 0)));
    cr_expect(a.has_box(box(kPlace, 512, 8, 4, 0)) && !a.has_box(box(kPlace, 512, 8, 5, 0)));
    cr_expect(!a.has_box(box(kPlace, 512, 8, 0, 1)));
    cr_expect(!a.has_box(box(kPlace, 512, 8, size_t{1} << 55, 0)) &&
              !a.has_box(box(kPlace, size_t{1} << 61, 8, 0, 0)));
    cr_expect(!a.has_box(box(kPlace, size_t{1} << 32, size_t{1} << 32, 0, 0)),
              "products round the end");
    cr_expect(a.has_rows(kPlace, 64, 512, 16) && !a.has_rows(kPlace, 64, 512, 17) &&
              a.has_rows(1, 0, 1, 9) && a.has_rows(1, 9, 1, 0));
    cr_expect(!a.has_rows(kPlace, 64, size_t{1} << 63, 3));
}

Test(addresses, reservations_and_tokens)
{
    test::use_recorder();
    Addresses a;
    a.reserve(kPlace, kMiB);
    cr_expect(a.has_reserved(kPlace, kMiB) && a.has_reserved(kPlace + 1, 1) &&
              !a.has_reserved(kPlace, kMiB + 1));
    cr_expect(!a.has_reserved(kPlace, 0) && !a.has(kPlace, 1), "addresses are no memory");
    a.unreserve(kPlace);
    cr_expect(!a.has_reserved(kPlace, 1));
    alarm(20);  // what wraps made the look go round for ever
    a.reserve(kPlace, UINT64_MAX);
    cr_expect(!a.has_reserved(UINT64_MAX - kMiB, kMiB / 2));
    a.give(calls::Token::memory, 5), a.give(calls::Token::memory, 5);
    cr_expect(!a.has(calls::Token::texture, 5));
    a.take(calls::Token::memory, 5);
    cr_expect(a.has(calls::Token::memory, 5));
    a.take(calls::Token::memory, 5);
    cr_expect(!a.has(calls::Token::memory, 5));
}
