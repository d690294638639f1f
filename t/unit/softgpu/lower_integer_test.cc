// SPDX-License-Identifier: Apache-2.0
// Integer instructions against the host's arithmetic.
#include "lower_support.h"

#include <algorithm>

using namespace lower_test;

#define OP(text, expression) \
    { \
        text, EXPECT_OF(expression) \
    }

namespace {

using i128 = __int128;

template <class T> T clamp_to(i128 v)
{
    return static_cast<T>(
        std::clamp<i128>(v, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
}

uint64_t bfe(uint64_t a, uint64_t position, uint64_t length, unsigned width, bool sign)
{
    // As PTX's pseudo-code has it: bit by bit.
    unsigned p = position & 255, n = length & 255, msb = width - 1;
    bool fill = sign && n != 0 ? a >> std::min(p + n - 1, msb) & 1 : false;
    uint64_t d = 0;
    for (unsigned i = 0; i <= msb; ++i) {
        bool bit = i < n && p + i <= msb ? a >> (p + i) & 1 : fill;
        d |= uint64_t{bit} << i;
    }
    return d;
}

uint64_t bfi(uint64_t a, uint64_t b, uint64_t position, uint64_t length, unsigned width)
{
    unsigned p = position & 255, n = length & 255;
    for (unsigned i = 0; i < n && p + i < width; ++i) {
        b &= ~(uint64_t{1} << (p + i));
        b |= (a >> i & 1) << (p + i);
    }
    return b;
}

uint32_t prmt(uint32_t a, uint32_t b, uint32_t s)
{
    uint64_t all = uint64_t{b} << 32 | a;
    uint32_t r = 0;
    for (int i = 0; i < 4; ++i) {
        uint32_t k = s >> (4 * i) & 15;
        auto byte = static_cast<int8_t>(all >> (8 * (k & 7)));
        if (k & 8) byte = byte < 0 ? -1 : 0;
        r |= uint32_t{static_cast<uint8_t>(byte)} << (8 * i);
    }
    return r;
}

uint32_t fns(uint32_t mask, uint32_t base, int32_t offset)
{
    if (offset == 0) return base < 32 && mask >> base & 1 ? base : ~0u;
    int step = offset < 0 ? -1 : 1;
    int64_t left = std::abs(int64_t{offset});
    for (int64_t i = base; i >= 0 && i < 32; i += step)
        if (mask >> i & 1 && --left == 0) return static_cast<uint32_t>(i);
    return ~0u;
}

uint32_t lop3(uint32_t a, uint32_t b, uint32_t c, unsigned table)
{
    uint32_t r = 0;
    for (int i = 0; i < 32; ++i)
        r |= (table >> ((a >> i & 1) * 4 + (b >> i & 1) * 2 + (c >> i & 1)) & 1) << i;
    return r;
}

uint32_t dp4a(uint32_t a, uint32_t b, uint32_t c, bool sa, bool sb)
{
    for (int i = 0; i < 4; ++i) {
        int x = a >> (8 * i) & 255, y = b >> (8 * i) & 255;
        if (sa) x = static_cast<int8_t>(x);
        if (sb) y = static_cast<int8_t>(y);
        c += static_cast<uint32_t>(x * y);
    }
    return c;
}

uint32_t dp2a(uint32_t a, uint32_t b, uint32_t c, bool sa, bool sb, bool high)
{
    for (int i = 0; i < 2; ++i) {
        int x = a >> (16 * i) & 65535, y = b >> (8 * i + (high ? 16 : 0)) & 255;
        if (sa) x = static_cast<int16_t>(x);
        if (sb) y = static_cast<int8_t>(y);
        c += static_cast<uint32_t>(x * y);
    }
    return c;
}

int64_t low24(uint64_t v) { return static_cast<int32_t>(static_cast<uint32_t>(v) << 8) >> 8; }

uint32_t two(uint32_t a, uint32_t b, uint16_t (*f)(uint16_t, uint16_t))
{
    return f(u16(a), u16(b)) | uint32_t{f(u16(a >> 16), u16(b >> 16))} << 16;
}

// The lanes of a SIMD video instruction.
uint32_t lanes(uint32_t a, uint32_t b, unsigned n, bool sign, int64_t (*f)(int64_t, int64_t),
               int64_t low, int64_t high, uint32_t *sum = nullptr)
{
    unsigned w = 32 / n;
    uint32_t r = 0;
    for (unsigned i = 0; i < n; ++i) {
        int64_t x = a >> (w * i) & ((1u << w) - 1), y = b >> (w * i) & ((1u << w) - 1);
        if (sign) x = x << (64 - w) >> (64 - w), y = y << (64 - w) >> (64 - w);
        int64_t v = std::clamp(f(x, y), low, high);
        if (sum) *sum += static_cast<uint32_t>(v);
        r |= (static_cast<uint32_t>(v) & ((1u << w) - 1)) << (w * i);
    }
    return r;
}
int64_t plus(int64_t x, int64_t y) { return x + y; }
int64_t difference(int64_t x, int64_t y) { return std::abs(x - y); }
int64_t average(int64_t x, int64_t y)
{
    int64_t s = x + y;
    return (s >= 0 ? s + 1 : s) >> 1;
}
constexpr int64_t kAny = int64_t{1} << 40;

int clz64(uint64_t v) { return v ? __builtin_clzll(v) : 64; }
int clz32(uint32_t v) { return v ? __builtin_clz(v) : 32; }

uint64_t reverse(uint64_t v, int width)
{
    uint64_t r = 0;
    for (int i = 0; i < width; ++i) r |= (v >> i & 1) << (width - 1 - i);
    return r;
}

}  // namespace

Test(lower_integer, arithmetic_32)
{
    check("u32 u32 u32",
          {
              OP("add.u32 %d, %a, %b;", a + b),
              OP("add.s32 %d, %a, %b;", a + b),
              OP("add.sat.s32 %d, %a, %b;", u32(clamp_to<int32_t>(i128{s32(a)} + s32(b)))),
              OP("sub.s32 %d, %a, %b;", a - b),
              OP("sub.sat.s32 %d, %a, %b;", u32(clamp_to<int32_t>(i128{s32(a)} - s32(b)))),
              OP("mul.lo.s32 %d, %a, %b;", a * b),
              OP("mul.hi.s32 %d, %a, %b;", u32((int64_t{s32(a)} * s32(b)) >> 32)),
              OP("mul.hi.u32 %d, %a, %b;", a * b >> 32),
              OP("mul24.lo.s32 %d, %a, %b;", u32(low24(a) * low24(b))),
              OP("mul24.hi.s32 %d, %a, %b;", u32((low24(a) * low24(b)) >> 16)),
              OP("mul24.lo.u32 %d, %a, %b;", u32((a & 0xFFFFFF) * (b & 0xFFFFFF))),
              OP("mul24.hi.u32 %d, %a, %b;", u32((a & 0xFFFFFF) * (b & 0xFFFFFF) >> 16)),
              OP("div.s32 %d, %a, %b;",
                 u32(b == 0 ? -1 : static_cast<int32_t>(int64_t{s32(a)} / s32(b)))),
              OP("div.u32 %d, %a, %b;", b == 0 ? ~0u : a / b),
              OP("rem.s32 %d, %a, %b;",
                 u32(b == 0 ? s32(a) : static_cast<int32_t>(int64_t{s32(a)} % s32(b)))),
              OP("rem.u32 %d, %a, %b;", b == 0 ? a : a % b),
              OP("min.s32 %d, %a, %b;", u32(std::min(s32(a), s32(b)))),
              OP("max.s32 %d, %a, %b;", u32(std::max(s32(a), s32(b)))),
              OP("min.u32 %d, %a, %b;", std::min(a, b)),
              OP("max.u32 %d, %a, %b;", std::max(a, b)),
              OP("max.relu.s32 %d, %a, %b;", u32(std::max({s32(a), s32(b), 0}))),
              OP("min.s16x2 %d, %a, %b;",
                 two(u32(a), u32(b),
                     [](uint16_t x, uint16_t y) { return u16(std::min(s16(x), s16(y))); })),
              OP("max.u16x2 %d, %a, %b;",
                 two(u32(a), u32(b), [](uint16_t x, uint16_t y) { return std::max(x, y); })),
              OP("add.u16x2 %d, %a, %b;",
                 two(u32(a), u32(b), [](uint16_t x, uint16_t y) { return u16(x + y); })),
              OP("and.b32 %d, %a, %b;", a & b),
              OP("or.b32 %d, %a, %b;", a | b),
              OP("xor.b32 %d, %a, %b;", a ^ b),
          });
}

Test(lower_integer, one_operand_32)
{
    check("u32 u32", {
                         OP("abs.s32 %d, %a;", u32(s32(a) < 0 ? -a : a)),
                         OP("neg.s32 %d, %a;", u32(-a)),
                         OP("not.b32 %d, %a;", ~a),
                         OP("cnot.b32 %d, %a;", a == 0),
                         OP("popc.b32 %d, %a;", __builtin_popcount(u32(a))),
                         OP("clz.b32 %d, %a;", clz32(u32(a))),
                         OP("brev.b32 %d, %a;", reverse(a, 32)),
                         OP("bfind.u32 %d, %a;", u32(31 - clz32(u32(a)))),
                         OP("bfind.shiftamt.u32 %d, %a;", a ? clz32(u32(a)) : ~0u),
                         OP("bfind.s32 %d, %a;", u32(31 - clz32(u32(s32(a) < 0 ? ~a : a)))),
                         OP("mov.b32 %d, %a;", a),
                         OP("add.u32 %d, %a, -5;", a - 5),
                         OP("mov.u32 %d, 0x7fU;", 0x7F),
                         OP("mov.u32 %d, WARP_SZ;", 32),
                         OP("mov.b32 %d, 0f3F800000;", 0x3F800000),
                     });
}

Test(lower_integer, three_operands_32)
{
    check(
        "u32 u32 u32 u32",
        {
            OP("mad.lo.s32 %d, %a, %b, %c;", a * b + c),
            OP("mad.hi.u32 %d, %a, %b, %c;", (a * b >> 32) + c),
            OP("mad.hi.s32 %d, %a, %b, %c;", u32(((int64_t{s32(a)} * s32(b)) >> 32) + s32(c))),
            OP("mad.hi.sat.s32 %d, %a, %b, %c;",
               u32(clamp_to<int32_t>(((int64_t{s32(a)} * s32(b)) >> 32) + s32(c)))),
            OP("mad24.lo.u32 %d, %a, %b, %c;", u32((a & 0xFFFFFF) * (b & 0xFFFFFF) + c)),
            OP("sad.s32 %d, %a, %b, %c;", u32(c + (s32(a) < s32(b) ? b - a : a - b))),
            OP("sad.u32 %d, %a, %b, %c;", u32(c + (a < b ? b - a : a - b))),
            OP("lop3.b32 %d, %a, %b, %c, 0x96;", lop3(u32(a), u32(b), u32(c), 0x96)),
            OP("lop3.b32 %d, %a, %b, %c, 0xE8;", lop3(u32(a), u32(b), u32(c), 0xE8)),
            OP("lop3.b32 %d, %a, %b, %c, 0x2A;", lop3(u32(a), u32(b), u32(c), 0x2A)),
            OP("lop3.b32 %d, %a, %b, %c, 0;", 0),
            OP("prmt.b32 %d, %a, %b, %c;", prmt(u32(a), u32(b), u32(c))),
            OP("prmt.b32.f4e %d, %a, %b, %c;",
               prmt(u32(a), u32(b), (const uint32_t[]){0x3210, 0x4321, 0x5432, 0x6543}[c & 3])),
            OP("prmt.b32.b4e %d, %a, %b, %c;",
               prmt(u32(a), u32(b), (const uint32_t[]){0x5670, 0x6701, 0x7012, 0x0123}[c & 3])),
            OP("prmt.b32.rc8 %d, %a, %b, %c;", prmt(u32(a), u32(b), 0x1111 * (c & 3))),
            OP("prmt.b32.ecl %d, %a, %b, %c;",
               prmt(u32(a), u32(b), (const uint32_t[]){0x3210, 0x3211, 0x3222, 0x3333}[c & 3])),
            OP("prmt.b32.ecr %d, %a, %b, %c;",
               prmt(u32(a), u32(b), (const uint32_t[]){0x0000, 0x1110, 0x2210, 0x3210}[c & 3])),
            OP("prmt.b32.rc16 %d, %a, %b, %c;", prmt(u32(a), u32(b), c & 1 ? 0x3232 : 0x1010)),
            OP("dp4a.u32.u32 %d, %a, %b, %c;", dp4a(u32(a), u32(b), u32(c), false, false)),
            OP("dp4a.s32.s32 %d, %a, %b, %c;", dp4a(u32(a), u32(b), u32(c), true, true)),
            OP("dp4a.s32.u32 %d, %a, %b, %c;", dp4a(u32(a), u32(b), u32(c), true, false)),
            OP("dp2a.lo.s32.s32 %d, %a, %b, %c;", dp2a(u32(a), u32(b), u32(c), true, true, false)),
            OP("dp2a.hi.u32.s32 %d, %a, %b, %c;", dp2a(u32(a), u32(b), u32(c), false, true, true)),
            OP("vadd2.s32.s32.s32.sat %d, %a, %b, %c;",
               lanes(u32(a), u32(b), 2, true, plus, -32768, 32767)),
            OP("vadd4.u32.u32.u32 %d, %a, %b, %c;",
               lanes(u32(a), u32(b), 4, false, plus, -kAny, kAny)),
            OP("vabsdiff4.u32.u32.u32 %d, %a, %b, %c;",
               lanes(u32(a), u32(b), 4, false, difference, 0, 255)),
            OP("vavrg4.u32.u32.u32 %d, %a, %b, %c;",
               lanes(u32(a), u32(b), 4, false, average, 0, 255)),
            OP("vmax2.s32.s32.s32 %d, %a, %b, %c;",
               lanes(
                   u32(a), u32(b), 2, true, [](int64_t x, int64_t y) { return std::max(x, y); },
                   -kAny, kAny)),
            OP("vabsdiff2.u32.u32.u32.add %d, %a, %b, %c;",
               [&] {
                   uint32_t s = u32(c);
                   lanes(u32(a), u32(b), 2, false, difference, -kAny, kAny, &s);
                   return s;
               }()),
            OP("fns.b32 %d, %a, %b, %c;", fns(u32(a), u32(b), s32(c))),
        });
}

Test(lower_integer, shifts_and_fields_32)
{
    check("u32 u32 shift",
          {
              OP("shl.b32 %d, %a, %b;", b > 31 ? 0 : a << b),
              OP("shr.u32 %d, %a, %b;", b > 31 ? 0 : a >> b),
              OP("shr.b32 %d, %a, %b;", b > 31 ? 0 : a >> b),
              OP("shr.s32 %d, %a, %b;", u32(s32(a) >> std::min<uint64_t>(b, 31))),
              OP("szext.clamp.s32 %d, %a, %b;", bfe(a, 0, std::min<uint64_t>(b, 32), 32, true)),
              OP("szext.wrap.u32 %d, %a, %b;", bfe(a, 0, b & 31, 32, false)),
              OP("bmsk.clamp.b32 %d, %a, %b;",
                 a >= 32 ? 0 : u32(((uint64_t{1} << std::min<uint64_t>(b, 32)) - 1) << a)),
              OP("bmsk.wrap.b32 %d, %a, %b;", u32(((uint64_t{1} << (b & 31)) - 1) << (a & 31))),
          });
    check(
        "u32 u32 u32 shift",
        {
            OP("shf.l.clamp.b32 %d, %a, %b, %c;", (b << 32 | a) << std::min<uint64_t>(c, 32) >> 32),
            OP("shf.l.wrap.b32 %d, %a, %b, %c;", (b << 32 | a) << (c & 31) >> 32),
            OP("shf.r.clamp.b32 %d, %a, %b, %c;", (b << 32 | a) >> std::min<uint64_t>(c, 32)),
            OP("shf.r.wrap.b32 %d, %a, %b, %c;", (b << 32 | a) >> (c & 31)),
        });
    check("u32 u32 shift shift", {
                                     OP("bfe.u32 %d, %a, %b, %c;", bfe(a, b, c, 32, false)),
                                     OP("bfe.s32 %d, %a, %b, %c;", bfe(a, b, c, 32, true)),
                                 });
    check("u32 u32 u32 shift shift", {OP("bfi.b32 %d, %a, %b, %c, %e;", bfi(a, b, c, e, 32))});
}

Test(lower_integer, arithmetic_64)
{
    check("u64 u64 u64",
          {
              OP("add.s64 %d, %a, %b;", a + b),
              OP("sub.u64 %d, %a, %b;", a - b),
              OP("mul.lo.s64 %d, %a, %b;", a * b),
              OP("mul.hi.s64 %d, %a, %b;", (i128{s64(a)} * s64(b)) >> 64),
              OP("mul.hi.u64 %d, %a, %b;", static_cast<unsigned __int128>(a) * b >> 64),
              OP("div.s64 %d, %a, %b;", b == 0 ? -1 : static_cast<int64_t>(i128{s64(a)} / s64(b))),
              OP("div.u64 %d, %a, %b;", b == 0 ? ~uint64_t{0} : a / b),
              OP("rem.s64 %d, %a, %b;",
                 b == 0 ? s64(a) : static_cast<int64_t>(i128{s64(a)} % s64(b))),
              OP("rem.u64 %d, %a, %b;", b == 0 ? a : a % b),
              OP("min.s64 %d, %a, %b;", std::min(s64(a), s64(b))),
              OP("max.u64 %d, %a, %b;", std::max(a, b)),
              OP("xor.b64 %d, %a, %b;", a ^ b),
          });
    check("u64 u64", {
                         OP("abs.s64 %d, %a;", s64(a) < 0 ? -a : a),
                         OP("neg.s64 %d, %a;", -a),
                         OP("not.b64 %d, %a;", ~a),
                         OP("cnot.b64 %d, %a;", a == 0),
                         OP("brev.b64 %d, %a;", reverse(a, 64)),
                     });
    check("u32 u64", {
                         OP("popc.b64 %d, %a;", __builtin_popcountll(a)),
                         OP("clz.b64 %d, %a;", clz64(a)),
                         OP("bfind.u64 %d, %a;", u32(63 - clz64(a))),
                         OP("bfind.s64 %d, %a;", u32(63 - clz64(s64(a) < 0 ? ~a : a))),
                     });
    check("u64 u64 shift", {
                               OP("shl.b64 %d, %a, %b;", b > 63 ? 0 : a << b),
                               OP("shr.u64 %d, %a, %b;", b > 63 ? 0 : a >> b),
                               OP("shr.s64 %d, %a, %b;", s64(a) >> std::min<uint64_t>(b, 63)),
                           });
    check("u64 u64 shift shift", {
                                     OP("bfe.u64 %d, %a, %b, %c;", bfe(a, b, c, 64, false)),
                                     OP("bfe.s64 %d, %a, %b, %c;", bfe(a, b, c, 64, true)),
                                 });
    check("u64 u64 u64 shift shift", {OP("bfi.b64 %d, %a, %b, %c, %e;", bfi(a, b, c, e, 64))});
    check("u64 u32 u32 u64",
          {
              OP("mad.wide.u32 %d, %a, %b, %c;", a * b + c),
              OP("mad.wide.s32 %d, %a, %b, %c;", int64_t{s32(a)} * s32(b) + s64(c)),
              OP("mul.wide.s32 %d, %a, %b;", int64_t{s32(a)} * s32(b)),
              OP("mul.wide.u32 %d, %a, %b;", a * b),
              OP("mov.b64 %d, {%a, %b};", b << 32 | a),
          });
}

Test(lower_integer, arithmetic_16)
{
    check("u16 u16 u16", {
                             OP("add.u16 %d, %a, %b;", u16(a + b)),
                             OP("sub.s16 %d, %a, %b;", u16(a - b)),
                             OP("mul.lo.s16 %d, %a, %b;", u16(a * b)),
                             OP("mul.hi.s16 %d, %a, %b;", u16((int32_t{s16(a)} * s16(b)) >> 16)),
                             OP("mul.hi.u16 %d, %a, %b;", u16(a * b >> 16)),
                             OP("div.s16 %d, %a, %b;", u16(b == 0 ? -1 : s16(a) / s16(b))),
                             OP("rem.u16 %d, %a, %b;", b == 0 ? a : a % b),
                             OP("min.s16 %d, %a, %b;", u16(std::min(s16(a), s16(b)))),
                             OP("max.u16 %d, %a, %b;", std::max(a, b)),
                             OP("and.b16 %d, %a, %b;", a & b),
                         });
    check("u32 u16 u16", {
                             OP("mul.wide.s16 %d, %a, %b;", u32(int32_t{s16(a)} * s16(b))),
                             OP("mul.wide.u16 %d, %a, %b;", a * b),
                             OP("mov.b32 %d, {%a, %b};", b << 16 | a),
                         });
    check("u16 u16 shift", {
                               OP("shl.b16 %d, %a, %b;", b > 15 ? 0 : u16(a << b)),
                               OP("shr.s16 %d, %a, %b;", u16(s16(a) >> std::min<uint64_t>(b, 15))),
                               OP("shr.u16 %d, %a, %b;", b > 15 ? 0 : a >> b),
                           });
}

// 96-bit sums with carries between their words.
Test(lower_integer, carries)
{
    check("u64 u64 u64",
          {
              OP("{ .reg .b32 x, y, p, q, r, s; mov.b64 {x, y}, %a; mov.b64 {p, q}, %b; add.cc.u32 "
                 "r, x, p; addc.u32 s, y, q; mov.b64 %d, {r, s}; }",
                 a + b),
              OP("{ .reg .b32 x, y, p, q, r, s; mov.b64 {x, y}, %a; mov.b64 {p, q}, %b; sub.cc.u32 "
                 "r, x, p; subc.u32 s, y, q; mov.b64 %d, {r, s}; }",
                 a - b),
              OP("{ .reg .b64 t; add.cc.u64 t, %a, %b; addc.u64 %d, 0, 0; }", a + b < a),
              OP("{ .reg .b64 t; sub.cc.u64 t, %a, %b; subc.u64 %d, 0, 0; }", a < b ? -1 : 0),
              OP("{ .reg .b64 t; add.cc.u64 t, %a, %b; addc.cc.u64 t, %a, %b; addc.u64 %d, 0, 0; }",
                 (static_cast<unsigned __int128>(a) + b + (a + b < a)) >> 64),
              OP("{ .reg .b64 t; mad.lo.cc.u64 t, %a, %b, %b; madc.hi.u64 %d, %a, %b, 0; }",
                 (static_cast<unsigned __int128>(a) * b + b) >> 64),
              // What a subtraction leaves for an addition is the carry of a + ~b + 1, and the other
              // way round: nvcc's own division of 128-bit integers counts on it.
              OP("{ .reg .b64 t; sub.cc.u64 t, %a, %b; addc.u64 %d, 0, 0; }", a >= b),
              OP("{ .reg .b64 t; add.cc.u64 t, %a, %b; subc.u64 %d, 0, 0; }", a + b < a ? 0 : -1),
              OP("{ .reg .b64 t; sub.cc.u64 t, %a, %b; subc.cc.u64 t, %b, %a; addc.u64 %d, 0, 0; }",
                 static_cast<unsigned __int128>(b) >= static_cast<unsigned __int128>(a) + (a < b)),
          });
}

Test(lower_integer, comparisons)
{
    check("pred u32 u32", {
                              OP("setp.eq.s32 %d, %a, %b;", a == b),
                              OP("setp.ne.b32 %d, %a, %b;", a != b),
                              OP("setp.lt.s32 %d, %a, %b;", s32(a) < s32(b)),
                              OP("setp.lt.u32 %d, %a, %b;", a < b),
                              OP("setp.ge.s32 %d, %a, %b;", s32(a) >= s32(b)),
                              OP("setp.lo.u32 %d, %a, %b;", a < b),
                              OP("setp.hs.u32 %d, %a, %b;", a >= b),
                              OP("{ .reg .pred q; setp.gt.s32 q|%d, %a, %b; }", s32(a) <= s32(b)),
                          });
    check("pred u32 u32 pred",
          {
              OP("setp.lt.and.s32 %d, %a, %b, %c;", s32(a) < s32(b) && c),
              OP("setp.lt.or.s32 %d, %a, %b, !%c;", s32(a) < s32(b) || !c),
              OP("setp.lt.xor.u32 %d, %a, %b, %c;", (a < b) != !!c),
              OP("{ .reg .b32 t; lop3.or.b32 t|%d, %a, %b, %a, 0xC0, %c; }", (a & b) != 0 || c),
          });
    check("u32 u32 u32 pred",
          {
              OP("selp.b32 %d, %a, %b, %c;", c ? a : b),
              OP("set.lt.u32.s32 %d, %a, %b;", s32(a) < s32(b) ? ~0u : 0),
              OP("set.gt.and.u32.u32 %d, %a, %b, %c;", a > b && c ? ~0u : 0),
              OP("slct.b32.s32 %d, %a, %b, %b;", s32(b) >= 0 ? a : b),
              OP("{ mov.u32 %d, %b; @%c mov.u32 %d, %a; }", c ? a : b),
              OP("{ mov.u32 %d, %b; @!%c add.u32 %d, %a, 1; }", c ? b : u32(a + 1)),
          });
    check("pred u64 u64", {
                              OP("setp.lt.s64 %d, %a, %b;", s64(a) < s64(b)),
                              OP("setp.gt.u64 %d, %a, %b;", a > b),
                          });
    check("pred pred pred", {
                                OP("and.pred %d, %a, %b;", a & b),
                                OP("or.pred %d, %a, !%b;", a | !b),
                                OP("xor.pred %d, %a, %b;", a ^ b),
                                OP("not.pred %d, %a;", !a),
                                OP("mov.pred %d, %a;", a),
                            });
}
