// SPDX-License-Identifier: Apache-2.0
// Video instructions, and vector registers: selected bytes and halves against plain arithmetic on
// the host.
#include <algorithm>

#include "lower_support.h"

using namespace lower_test;

namespace {

int64_t clamp(int64_t v, int64_t low, int64_t high) { return std::min(std::max(v, low), high); }
int64_t s8(uint64_t v, int i) { return static_cast<int8_t>(v >> 8 * i); }
int64_t u8(uint64_t v, int i) { return static_cast<uint8_t>(v >> 8 * i); }
int64_t h(uint64_t v, int i) { return static_cast<int16_t>(v >> 16 * i); }
int64_t u(uint64_t v) { return static_cast<uint32_t>(v); }
int64_t s(uint64_t v) { return static_cast<int32_t>(v); }

template <class Lane> uint64_t each_byte(Lane lane)
{
    uint64_t r = 0;
    for (int i = 0; i < 4; i++) r |= (static_cast<uint64_t>(lane(i)) & 255) << 8 * i;
    return r;
}

}  // namespace

Test(video, one_at_a_time)
{
    check(
        "u32 u32 u32 u32",
        {
            {"vadd.s32.s32.s32 %d, %a, %b;", EXPECT_OF(s(a) + s(b))},
            {"vadd.s32.s32.u32.sat %d, %a, %b;",
             EXPECT_OF(clamp(s(a) + u(b), INT32_MIN, INT32_MAX))},
            {"vadd.u32.s32.s32.sat %d, %a, %b;", EXPECT_OF(clamp(s(a) + s(b), 0, UINT32_MAX))},
            {"vadd.s32.s32.u32 %d, %a.b1, %b.h1;", EXPECT_OF(s8(a, 1) + (b >> 16))},
            {"vsub.u32.u32.u32 %d, %a.h0, %b.b3;", EXPECT_OF((a & 0xFFFF) - u8(b, 3))},
            {"vsub.s32.s32.s32.sat.add %d, %a, %b, %c;",
             EXPECT_OF(clamp(s(a) - s(b), INT32_MIN, INT32_MAX) + s(c))},
            {"vsub.s32.u32.u32.max %d, %a.b0, %b.b0, %c;",
             EXPECT_OF(std::max(u8(a, 0) - u8(b, 0), s(c)))},
            {"vabsdiff.u32.s32.s32 %d, %a, %b;", EXPECT_OF(std::abs(s(a) - s(b)))},
            {"vabsdiff.u32.u32.u32.add %d, %a.b2, %b.b2, %c;",
             EXPECT_OF(std::abs(u8(a, 2) - u8(b, 2)) + u(c))},
            {"vmin.s32.s32.u32 %d, %a, %b;", EXPECT_OF(std::min(s(a), u(b)))},
            {"vmax.u32.u32.s32.min %d, %a.h1, %b.b0, %c;",
             EXPECT_OF(std::min(u(static_cast<uint64_t>(std::max<int64_t>(
                                    static_cast<int64_t>(a >> 16 & 0xFFFF), s8(b, 0)))),
                                u(c)))},
            {"mov.u32 %d, %c; vadd.u32.u32.u32.sat %d.b1, %a, %b, %c;",
             EXPECT_OF((c & ~0xFF00u) | static_cast<uint64_t>(clamp(u(a) + u(b), 0, 255)) << 8)},
            {"vadd.s32.s32.s32 %d.h1, %a, %b, %c;",
             EXPECT_OF((c & 0xFFFF) | static_cast<uint64_t>(s(a) + s(b)) << 16)},
            {"vshl.u32.u32.u32.clamp %d, %a, %b;", EXPECT_OF(u(b) >= 32 ? 0 : u(a) << u(b))},
            {"vshl.s32.s32.u32.sat.wrap %d, %a, %b;",
             EXPECT_OF(clamp(s(a) * (int64_t{1} << (b & 31)), INT32_MIN, INT32_MAX))},
            {"vshr.s32.s32.u32.clamp %d, %a.h0, %b;",
             EXPECT_OF(h(a, 0) >> std::min<int64_t>(u(b), 32))},
            {"vshr.u32.u32.u32.wrap.add %d, %a, %b, %c;", EXPECT_OF((u(a) >> (b & 31)) + u(c))},
            {"vmad.s32.s32.s32 %d, %a.h0, %b.h1, %c;", EXPECT_OF(h(a, 0) * h(b, 1) + s(c))},
            {"vmad.u32.u32.u32.po.sat %d, %a.b0, %b.b1, %c;",
             EXPECT_OF(clamp(u8(a, 0) * u8(b, 1) + u(c) + 1, 0, UINT32_MAX))},
            {"vmad.s32.s32.u32.shr7 %d, %a.h1, %b.b3, %c;",
             EXPECT_OF((h(a, 1) * u8(b, 3) + s(c)) >> 7)},
            {"vmad.u32.u32.u32.sat %d, -%a.h0, %b.h0, %c;",
             EXPECT_OF(clamp(s(c) - static_cast<int64_t>((a & 0xFFFF) * (b & 0xFFFF)), INT32_MIN,
                             INT32_MAX))},
            {"vmad.s32.s32.s32 %d, -%a.b0, -%b.b1, %c;", EXPECT_OF(s8(a, 0) * s8(b, 1) + s(c))},
            {"vmad.s32.u32.u32.sat.shr15 %d, %a.h1, %b.h1, -%c;",
             EXPECT_OF(
                 clamp((static_cast<int64_t>((a >> 16 & 0xFFFF) * (b >> 16 & 0xFFFF)) - u(c)) >> 15,
                       INT32_MIN, INT32_MAX))},
            {"vset.s32.u32.lt %d, %a, %b;", EXPECT_OF(s(a) < u(b))},
            {"vset.u32.u32.ge.add %d, %a.b3, %b.b0, %c;", EXPECT_OF((u8(a, 3) >= u8(b, 0)) + u(c))},
        });
}

Test(video, all_at_a_time)
{
    check("u32 u32 u32 u32",
          {
              {"vadd4.u32.u32.u32 %d, %a, %b, %c;",
               EXPECT_OF(each_byte([&](int i) { return u8(a, i) + u8(b, i); }))},
              {"vadd4.s32.s32.s32.sat %d, %a, %b, %c;",
               EXPECT_OF(each_byte([&](int i) { return clamp(s8(a, i) + s8(b, i), -128, 127); }))},
              {"vsub4.u32.u32.u32.sat %d.b31, %a, %b, %c;", EXPECT_OF(each_byte([&](int i) {
                   return i % 2 ? clamp(u8(a, i) - u8(b, i), 0, 255) : u8(c, i);
               }))},
              {"vadd4.u32.u32.u32 %d, %a.b0123, %b.b7654, %c;",
               EXPECT_OF(each_byte([&](int i) { return u8(a, 3 - i) + u8(b, i); }))},
              {"vadd4.u32.u32.u32 %d, %a.b4444, %b.b3210, %c;",
               EXPECT_OF(each_byte([&](int i) { return u8(b, 0) + u8(a, i); }))},
              {"vmax4.s32.s32.s32.add %d, %a, %b, %c;",
               EXPECT_OF(u(c) + std::max(s8(a, 0), s8(b, 0)) + std::max(s8(a, 1), s8(b, 1)) +
                         std::max(s8(a, 2), s8(b, 2)) + std::max(s8(a, 3), s8(b, 3)))},
              {"vsub2.s32.s32.s32 %d, %a, %b, %c;",
               EXPECT_OF(((a - b) & 0xFFFF) | (((a >> 16) - (b >> 16)) << 16))},
              {"vavrg2.s32.s32.s32 %d, %a, %b, %c;", EXPECT_OF([&] {
                   uint64_t r = 0;
                   for (int i = 0; i < 2; i++) {
                       const int64_t sum = h(a, i) + h(b, i);
                       r |= (static_cast<uint64_t>((sum + (sum >= 0)) >> 1) & 0xFFFF) << 16 * i;
                   }
                   return r;
               }())},
              {"vmin2.u32.u32.u32 %d, %a, %b, %c;",
               EXPECT_OF(std::min(a & 0xFFFF, b & 0xFFFF) |
                         std::min(a >> 16 & 0xFFFF, b >> 16 & 0xFFFF) << 16)},
              {"vmax2.s32.s32.s32 %d, %a, %b, %c;",
               EXPECT_OF((static_cast<uint64_t>(std::max(h(a, 0), h(b, 0))) & 0xFFFF) |
                         (static_cast<uint64_t>(std::max(h(a, 1), h(b, 1))) & 0xFFFF) << 16)},
              {"vmin4.s32.s32.s32 %d, %a, %b, %c;",
               EXPECT_OF(each_byte([&](int i) { return std::min(s8(a, i), s8(b, i)); }))},
              {"vset4.u32.u32.gt %d, %a, %b, %c;",
               EXPECT_OF(each_byte([&](int i) { return u8(a, i) > u8(b, i); }))},
              {"vset2.s32.s32.le.add %d, %a, %b, %c;",
               EXPECT_OF(u(c) + (h(a, 0) <= h(b, 0)) + (h(a, 1) <= h(b, 1)))},
              {"vabsdiff2.u32.s32.s32 %d.h0, %a, %b, %c;",
               EXPECT_OF((c & 0xFFFF0000u) |
                         (static_cast<uint64_t>(std::abs(h(a, 0) - h(b, 0))) & 0xFFFF))},
          });
}

Test(vector_registers, whole_and_in_parts)
{
    check("u32 u32 u32 u32", {
                                 {".reg .v4 .b32 %v; .reg .v2 .u32 %w<3>; .local .align 16 .b8 "
                                  "room[16]; .reg .b64 %at; mov.u64 %at, room; mov.u32 %v.x, %a;"
                                  "mov.u32 %v.y, %b; mov.b32 %v.z, %c; mov.b32 %v.w, 7; "
                                  "st.local.v4.b32 [%at], %v; ld.local.v2.u32 %w2, [%at+8];"
                                  "mad.lo.u32 %d, %w2.x, 3, %w2.y; mov.u32 %w1.y, %v.r; add.u32 "
                                  "%d, %d, %w1.y; add.u32 %d, %d, %v.a;",
                                  EXPECT_OF(c * 3 + 7 + a + 7)},
                             });
}
