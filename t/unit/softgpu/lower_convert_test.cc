// SPDX-License-Identifier: Apache-2.0
// cvt between all types, and half-precision arithmetic, against the host.
#include "lower_support.h"

#include <cfenv>

using namespace lower_test;

#define OP(text, expression) \
    { \
        text, EXPECT_OF(expression) \
    }

namespace {

using i128 = __int128;

// A float format by its digits: exact in double.
struct Format {
    int mantissa, bias;  // stored bits; exponent bias
    unsigned exponent_bits;
};
constexpr Format kHalf{10, 15, 5}, kBf16{7, 127, 8};

double value(Format f, uint64_t b)
{
    unsigned top = (1u << f.exponent_bits) - 1;
    auto e = static_cast<unsigned>(b >> f.mantissa & top);
    auto m = static_cast<double>(b & ((1u << f.mantissa) - 1));
    bool minus = b >> (f.mantissa + static_cast<int>(f.exponent_bits)) & 1;
    double r;
    if (e == top)
        r = m != 0 ? NAN : INFINITY;
    else if (e == 0)
        r = std::ldexp(m, 1 - f.bias - f.mantissa);
    else
        r = std::ldexp(m + (1 << f.mantissa), static_cast<int>(e) - f.bias - f.mantissa);
    return minus ? -r : r;
}

// Rounds a value to the format; it is given as double, with the sign of what a double cannot hold
// besides.
uint64_t encode(Format f, double v, int rest = 0, int mode = FE_TONEAREST)
{
    unsigned top = (1u << f.exponent_bits) - 1;
    uint64_t sign =
        std::signbit(v) ? uint64_t{1} << (f.mantissa + static_cast<int>(f.exponent_bits)) : 0;
    uint64_t infinity = uint64_t{top} << f.mantissa;
    if (std::isnan(v)) return infinity | ((uint64_t{1} << f.mantissa) - 1);
    if (std::isinf(v)) return sign | infinity;
    // All candidates are walked through by bisection on the magnitude: the largest not above |v|.
    double magnitude = std::abs(v);
    if (std::signbit(v)) rest = -rest;
    uint64_t low = 0, high = infinity;
    while (high - low > 1) {
        uint64_t middle = (low + high) / 2;
        bool above = value(f, middle) > magnitude || (value(f, middle) == magnitude && rest < 0);
        (above ? high : low) = middle;
    }
    double below = value(f, low);
    if (below == magnitude && rest == 0) return sign | low;
    double above = low + 1 == infinity ? std::ldexp(1.0, (1 << (f.exponent_bits - 1)))
                                       : value(f, low + 1);
    bool up;
    if (mode == FE_TOWARDZERO)
        up = false;
    else if (mode == FE_DOWNWARD)
        up = sign != 0;
    else if (mode == FE_UPWARD)
        up = sign == 0;
    else {
        double half = (above - below) / 2, off = magnitude - below;
        up = off > half || (off == half && (rest > 0 || (rest == 0 && (low & 1))));
    }
    return sign | (low + up);
}

// The 16-bit result of an exact sum of products, by long double and a rest sign.
uint64_t fma16(Format f, uint64_t a, uint64_t b, uint64_t c)
{
    double p = value(f, a) * value(f, b), z = value(f, c), s = p + z;
    if (!std::isfinite(s)) return encode(f, s);
    double bb = s - p, e = (p - (s - bb)) + (z - bb);
    return encode(f, s, e > 0 ? 1 : e < 0 ? -1 : 0);
}

// A NaN gives the lowest number, as a bit pattern, where a 64-bit type takes part, else 0.
template <class T> uint64_t to_int(double v, int mode, bool from_double = false)
{
    if (std::isnan(v))
        return from_double || sizeof(T) == 8 ? uint64_t{1} << (8 * sizeof(T) - 1) : 0;
    double r = mode == FE_TONEAREST    ? std::nearbyint(v)
               : mode == FE_TOWARDZERO ? std::trunc(v)
               : mode == FE_DOWNWARD   ? std::floor(v)
                                       : std::ceil(v);
    constexpr int digits = std::numeric_limits<T>::digits;
    if (r >= std::ldexp(1.0, digits)) return static_cast<uint64_t>(std::numeric_limits<T>::max());
    if (r < static_cast<double>(std::numeric_limits<T>::min()))
        return static_cast<uint64_t>(std::numeric_limits<T>::min());
    return static_cast<uint64_t>(static_cast<T>(r));
}

template <class To, class From> uint64_t converted(From v, int mode)
{
    fesetround(mode);
    volatile From in = v;
    volatile To out = static_cast<To>(in);
    fesetround(FE_TONEAREST);
    return bits(static_cast<To>(out));
}

uint64_t ftz(uint64_t v) { return std::fpclassify(f32(v)) == FP_SUBNORMAL ? v & 0x80000000 : v; }
float h(uint64_t b) { return static_cast<float>(value(kHalf, b & 0xFFFF)); }
float bf(uint64_t b) { return static_cast<float>(value(kBf16, b & 0xFFFF)); }
uint64_t half(double v) { return encode(kHalf, v); }
uint64_t bf16(double v) { return encode(kBf16, v); }
uint64_t pair(uint64_t low, uint64_t high) { return (low & 0xFFFF) | high << 16; }

// 8-bit floats: saturated; the largest is 448 for e4m3, whose top exponent holds numbers too.
uint64_t e4m3(double v)
{
    if (std::isnan(v)) return 0x7F;
    uint64_t sign = std::signbit(v) ? 0x80 : 0;
    if (std::abs(v) >= 448) return sign | 0x7E;
    double m = std::abs(v), best = 1e300;
    uint64_t code = 0;
    for (uint64_t c = 0; c < 0x7F; ++c) {
        int e = static_cast<int>(c >> 3);
        double x = e ? std::ldexp(8.0 + static_cast<double>(c & 7), e - 10)
                     : std::ldexp(static_cast<double>(c & 7), -9);
        double off = std::abs(x - m);
        if (off < best || (off == best && !(c & 1))) best = off, code = c;
    }
    return sign | code;
}
uint64_t e5m2(double v)
{
    if (std::isnan(v)) return 0x7F;
    uint64_t sign = std::signbit(v) ? 0x80 : 0;
    if (std::abs(v) >= 57344) return sign | 0x7B;
    double m = std::abs(v), best = 1e300;
    uint64_t code = 0;
    for (uint64_t c = 0; c < 0x7C; ++c) {
        double off = std::abs(value(kHalf, c << 8) - m);
        if (off < best || (off == best && !(c & 1))) best = off, code = c;
    }
    return sign | code;
}
double e4m3_value(uint64_t c)
{
    if ((c & 0x7F) == 0x7F) return NAN;
    int e = static_cast<int>(c >> 3 & 15);
    double x = e ? std::ldexp(8.0 + static_cast<double>(c & 7), e - 10)
                 : std::ldexp(static_cast<double>(c & 7), -9);
    return c & 0x80 ? -x : x;
}

}  // namespace

Test(lower_convert, between_integers)
{
    check("u64 u32", {
                         OP("cvt.u64.u32 %d, %a;", a),
                         OP("cvt.s64.s32 %d, %a;", int64_t{s32(a)}),
                         OP("cvt.u64.u16 %d, %a;", a & 0xFFFF),
                         OP("cvt.s64.s8 %d, %a;", int64_t{static_cast<int8_t>(a)}),
                         OP("cvt.sat.u64.s32 %d, %a;", s32(a) < 0 ? 0 : a),
                     });
    check("u32 u64",
          {
              OP("cvt.u32.u64 %d, %a;", a),
              OP("cvt.sat.u32.u64 %d, %a;", std::min<uint64_t>(a, 0xFFFFFFFF)),
              OP("cvt.sat.s32.s64 %d, %a;", std::clamp<int64_t>(s64(a), INT32_MIN, INT32_MAX)),
              OP("cvt.sat.u32.s64 %d, %a;", std::clamp<int64_t>(s64(a), 0, UINT32_MAX)),
              OP("cvt.sat.s32.u64 %d, %a;", std::min<uint64_t>(a, INT32_MAX)),
          });
    check("u32 u32", {
                         OP("cvt.u32.u8 %d, %a;", a & 0xFF),
                         OP("cvt.s32.s8 %d, %a;", u32(static_cast<int8_t>(a))),
                         OP("cvt.s8.s32 %d, %a;", u32(static_cast<int8_t>(a))),
                         OP("cvt.u8.u32 %d, %a;", a & 0xFF),
                         OP("cvt.s32.s16 %d, %a;", u32(s16(a))),
                         OP("cvt.sat.s8.s32 %d, %a;", u32(std::clamp(s32(a), -128, 127))),
                         OP("cvt.sat.u8.s32 %d, %a;", u32(std::clamp(s32(a), 0, 255))),
                         OP("cvt.sat.s16.u32 %d, %a;", std::min<uint64_t>(a, 32767)),
                         OP("cvt.sat.u32.s32 %d, %a;", s32(a) < 0 ? 0 : a),
                         OP("cvt.sat.s32.u32 %d, %a;", std::min<uint64_t>(a, INT32_MAX)),
                     });
    check("u32 u32 u32 u32",
          {
              OP("cvt.pack.sat.u16.s32 %d, %a, %b;",
                 std::clamp(s32(a), 0, 65535) * 65536u + u32(std::clamp(s32(b), 0, 65535))),
              OP("cvt.pack.sat.s8.s32.b32 %d, %a, %b, %c;",
                 u32(c << 16) | (u32(std::clamp(s32(a), -128, 127)) & 255) << 8 |
                     (u32(std::clamp(s32(b), -128, 127)) & 255)),
          });
    check("u16 u32", {OP("cvt.u16.u32 %d, %a;", a & 0xFFFF)});
}

Test(lower_convert, float_to_integer)
{
    check("u32 f32", {
                         OP("cvt.rzi.s32.f32 %d, %a;", to_int<int32_t>(f32(a), FE_TOWARDZERO)),
                         OP("cvt.rni.s32.f32 %d, %a;", to_int<int32_t>(f32(a), FE_TONEAREST)),
                         OP("cvt.rmi.s32.f32 %d, %a;", to_int<int32_t>(f32(a), FE_DOWNWARD)),
                         OP("cvt.rpi.s32.f32 %d, %a;", to_int<int32_t>(f32(a), FE_UPWARD)),
                         OP("cvt.rpi.ftz.s32.f32 %d, %a;", to_int<int32_t>(f32(ftz(a)), FE_UPWARD)),
                         OP("cvt.rzi.u32.f32 %d, %a;", to_int<uint32_t>(f32(a), FE_TOWARDZERO)),
                         OP("cvt.rni.u32.f32 %d, %a;", to_int<uint32_t>(f32(a), FE_TONEAREST)),
                         OP("cvt.rzi.s8.f32 %d, %a;", u32(to_int<int8_t>(f32(a), FE_TOWARDZERO))),
                         OP("cvt.rzi.u16.f32 %d, %a;", to_int<uint16_t>(f32(a), FE_TOWARDZERO)),
                     });
    check("u64 f32", {
                         OP("cvt.rzi.s64.f32 %d, %a;", to_int<int64_t>(f32(a), FE_TOWARDZERO)),
                         OP("cvt.rzi.u64.f32 %d, %a;", to_int<uint64_t>(f32(a), FE_TOWARDZERO)),
                     });
    check("u64 f64",
          {
              OP("cvt.rzi.s64.f64 %d, %a;", to_int<int64_t>(f64(a), FE_TOWARDZERO, true)),
              OP("cvt.rni.u64.f64 %d, %a;", to_int<uint64_t>(f64(a), FE_TONEAREST, true)),
              OP("cvt.rmi.u64.f64 %d, %a;", to_int<uint64_t>(f64(a), FE_DOWNWARD, true)),
          });
    check("u32 f64",
          {
              OP("cvt.rni.s32.f64 %d, %a;", to_int<int32_t>(f64(a), FE_TONEAREST, true)),
              OP("cvt.rpi.u32.f64 %d, %a;", to_int<uint32_t>(f64(a), FE_UPWARD, true)),
              OP("cvt.rzi.u16.f64 %d, %a;", to_int<uint16_t>(f64(a), FE_TOWARDZERO, true)),
          });
    check("u32 f16", {
                         OP("cvt.rzi.s32.f16 %d, %a;", to_int<int32_t>(h(a), FE_TOWARDZERO)),
                         OP("cvt.rni.u16.f16 %d, %a;", to_int<uint16_t>(h(a), FE_TONEAREST)),
                     });
    check("u64 f16", {OP("cvt.rmi.s64.f16 %d, %a;", to_int<int64_t>(h(a), FE_DOWNWARD))});
}

Test(lower_convert, integer_to_float)
{
    check("f32 u32", {
                         OP("cvt.rn.f32.s32 %d, %a;", converted<float>(s32(a), FE_TONEAREST)),
                         OP("cvt.rn.f32.u32 %d, %a;", converted<float>(u32(a), FE_TONEAREST)),
                         OP("cvt.rz.f32.s32 %d, %a;", converted<float>(s32(a), FE_TOWARDZERO)),
                         OP("cvt.rm.f32.u32 %d, %a;", converted<float>(u32(a), FE_DOWNWARD)),
                         OP("cvt.rp.f32.s32 %d, %a;", converted<float>(s32(a), FE_UPWARD)),
                         OP("cvt.rn.f32.u8 %d, %a;", bits(static_cast<float>(a & 255))),
                         OP("cvt.rn.f32.s16 %d, %a;", bits(static_cast<float>(s16(a)))),
                     });
    check("f32 u64", {
                         OP("cvt.rn.f32.s64 %d, %a;", converted<float>(s64(a), FE_TONEAREST)),
                         OP("cvt.rn.f32.u64 %d, %a;", converted<float>(a, FE_TONEAREST)),
                         OP("cvt.rz.f32.s64 %d, %a;", converted<float>(s64(a), FE_TOWARDZERO)),
                         OP("cvt.rp.f32.u64 %d, %a;", converted<float>(a, FE_UPWARD)),
                     });
    check("f64 u64", {
                         OP("cvt.rn.f64.s64 %d, %a;", converted<double>(s64(a), FE_TONEAREST)),
                         OP("cvt.rm.f64.u64 %d, %a;", converted<double>(a, FE_DOWNWARD)),
                     });
    check("f64 u32", {
                         OP("cvt.rn.f64.s32 %d, %a;", bits(static_cast<double>(s32(a)))),
                         OP("cvt.rn.f64.u32 %d, %a;", bits(static_cast<double>(a))),
                     });
    check("f16 u32", {
                         OP("cvt.rn.f16.s32 %d, %a;", half(s32(a))),
                         OP("cvt.rn.f16.u32 %d, %a;", half(static_cast<double>(a))),
                         OP("cvt.rn.bf16.s32 %d, %a;", bf16(s32(a))),
                     });
    check(
        "bf16 u64",
        {OP("cvt.rn.bf16.u64 %d, %a;",
            encode(kBf16, static_cast<double>(a),
                   i128{static_cast<int64_t>(0)} + a > static_cast<i128>(static_cast<double>(a)) ? 1
                   : static_cast<i128>(a) < static_cast<i128>(static_cast<double>(a)) ? -1
                                                                                      : 0))});
}

Test(lower_convert, between_floats)
{
    check("f32 f32", {
                         OP("cvt.rni.f32.f32 %d, %a;", bits(std::nearbyint(f32(a)))),
                         OP("cvt.rzi.f32.f32 %d, %a;", bits(std::trunc(f32(a)))),
                         OP("cvt.rmi.ftz.f32.f32 %d, %a;", bits(std::floor(f32(ftz(a))))),
                         OP("cvt.rpi.f32.f32 %d, %a;", bits(std::ceil(f32(a)))),
                         OP("cvt.sat.f32.f32 %d, %a;", bits(!(f32(a) > 0) ? 0.0f
                                                            : f32(a) > 1  ? 1.0f
                                                                          : f32(a))),
                         OP("cvt.ftz.f32.f32 %d, %a;", ftz(a)),
                     });
    check("f64 f32", {
                         OP("cvt.f64.f32 %d, %a;", bits(static_cast<double>(f32(a)))),
                         OP("cvt.ftz.f64.f32 %d, %a;", bits(static_cast<double>(f32(ftz(a))))),
                     });
    check("f32 f64",
          {
              OP("cvt.rn.f32.f64 %d, %a;", converted<float>(f64(a), FE_TONEAREST)),
              OP("cvt.rz.f32.f64 %d, %a;", converted<float>(f64(a), FE_TOWARDZERO)),
              OP("cvt.rm.f32.f64 %d, %a;", converted<float>(f64(a), FE_DOWNWARD)),
              OP("cvt.rp.f32.f64 %d, %a;", converted<float>(f64(a), FE_UPWARD)),
              OP("cvt.rn.ftz.f32.f64 %d, %a;", ftz(converted<float>(f64(a), FE_TONEAREST))),
          });
    check("f64 f64", {OP("cvt.rni.f64.f64 %d, %a;", bits(std::nearbyint(f64(a)))),
                      OP("cvt.rmi.f64.f64 %d, %a;", bits(std::floor(f64(a))))});
    check("f16 f32", {
                         OP("cvt.rn.f16.f32 %d, %a;", half(f32(a))),
                         OP("cvt.rz.f16.f32 %d, %a;", encode(kHalf, f32(a), 0, FE_TOWARDZERO)),
                         OP("cvt.rm.f16.f32 %d, %a;", encode(kHalf, f32(a), 0, FE_DOWNWARD)),
                         OP("cvt.rp.f16.f32 %d, %a;", encode(kHalf, f32(a), 0, FE_UPWARD)),
                         OP("cvt.rn.relu.f16.f32 %d, %a;", f32(a) <= 0 ? 0 : half(f32(a))),
                     });
    check("f16 f64", {OP("cvt.rn.f16.f64 %d, %a;", half(f64(a)))});
    check("bf16 f32", {
                          OP("cvt.rn.bf16.f32 %d, %a;", bf16(f32(a))),
                          OP("cvt.rz.bf16.f32 %d, %a;", encode(kBf16, f32(a), 0, FE_TOWARDZERO)),
                      });
    check("f32 f16", {OP("cvt.f32.f16 %d, %a;", bits(h(a)))});
    check("f64 f16", {OP("cvt.f64.f16 %d, %a;", bits(value(kHalf, a)))});
    check("f32 bf16", {OP("cvt.f32.bf16 %d, %a;", bits(bf(a)))});
    check("f16 f16", {OP("cvt.rni.f16.f16 %d, %a;", half(std::nearbyint(h(a)))),
                      OP("cvt.sat.f16.f16 %d, %a;", half(!(h(a) > 0) ? 0
                                                         : h(a) > 1  ? 1
                                                                     : h(a)))});
    // Packed; NaNs have one code here too.
    check("u32 f32 f32",
          {
              OP("cvt.rn.f16x2.f32 %d, %a, %b;", pair(half(f32(b)), half(f32(a)))),
              OP("cvt.rn.bf16x2.f32 %d, %a, %b;", pair(bf16(f32(b)), bf16(f32(a)))),
              OP("{ .reg .b16 t; cvt.rn.satfinite.e4m3x2.f32 t, %a, %b; cvt.u32.u16 %d, t; }",
                 e4m3(f32(b)) | e4m3(f32(a)) << 8),
              OP("{ .reg .b16 t; cvt.rn.satfinite.e5m2x2.f32 t, %a, %b; cvt.u32.u16 %d, t; }",
                 e5m2(f32(b)) | e5m2(f32(a)) << 8),
          },
          true);
    check("u32 f32",
          {
              OP("cvt.rna.tf32.f32 %d, %a;", std::isfinite(f32(a)) ? (a + 0x1000) & 0xFFFFE000 : a),
          });
    check("f16 u16",
          {
              OP("{ .reg .b32 t; .reg .b16 x; cvt.rn.f16x2.e4m3x2 t, %a; mov.b32 {%d, x}, t; }",
                 half(e4m3_value(a & 255))),
              OP("{ .reg .b32 t; .reg .b16 x; cvt.rn.f16x2.e4m3x2 t, %a; mov.b32 {x, %d}, t; }",
                 half(e4m3_value(a >> 8))),
              OP("{ .reg .b32 t; .reg .b16 x; cvt.rn.f16x2.e5m2x2 t, %a; mov.b32 {%d, x}, t; }",
                 half(value(kHalf, (a & 255) << 8))),
          });
}

Test(lower_convert, half_arithmetic)
{
    check("f16 f16 f16", {
                             OP("add.f16 %d, %a, %b;", half(double{h(a)} + h(b))),
                             OP("sub.rn.f16 %d, %a, %b;", half(double{h(a)} - h(b))),
                             OP("mul.f16 %d, %a, %b;", half(double{h(a)} * h(b))),
                             OP("add.sat.f16 %d, %a, %b;", half([](double x) {
                                    return !(x > 0) ? 0 : x > 1 ? 1 : x;
                                }(double{h(a)} + h(b)))),
                             OP("min.f16 %d, %a, %b;", std::isnan(h(a))   ? b
                                                       : std::isnan(h(b)) ? a
                                                       : h(a) == h(b)     ? a | b
                                                       : h(a) < h(b)      ? a
                                                                          : b),
                             OP("max.f16 %d, %a, %b;", std::isnan(h(a))   ? b
                                                       : std::isnan(h(b)) ? a
                                                       : h(a) == h(b)     ? a & b
                                                       : h(a) > h(b)      ? a
                                                                          : b),
                             OP("{ .reg .pred p; setp.lt.f16 p, %a, %b; selp.b16 %d, %a, %b, p; }",
                                h(a) < h(b) ? a : b),
                         });
    check("f16 f16", {
                         OP("neg.f16 %d, %a;", a ^ 0x8000),
                         OP("abs.f16 %d, %a;", a & 0x7FFF),
                     });
    check("f16 f16 f16 f16", {
                                 OP("fma.rn.f16 %d, %a, %b, %c;", fma16(kHalf, a, b, c)),
                                 OP("fma.rn.relu.f16 %d, %a, %b, %c;",
                                    [](uint64_t r) {
                                        return (r & 0x8000) && !std::isnan(value(kHalf, r)) ? 0 : r;
                                    }(fma16(kHalf, a, b, c))),
                             });
    check("bf16 bf16 bf16",
          {
              OP("add.rn.bf16 %d, %a, %b;", encode(kBf16, static_cast<double>(bf(a)) + bf(b))),
              OP("mul.bf16 %d, %a, %b;", bf16(static_cast<double>(bf(a)) * bf(b))),
          });
    check("bf16 bf16 bf16 bf16", {OP("fma.rn.bf16 %d, %a, %b, %c;", fma16(kBf16, a, b, c))});
    // Each lane of a pair is what one half is.
    check("f16 f16 f16", {
                             OP("{ .reg .b32 x, y, z; .reg .b16 t; mov.b32 x, {%a, %b}; mov.b32 y, "
                                "{%b, %a}; add.f16x2 z, x, y; mov.b32 {%d, t}, z; }",
                                half(double{h(a)} + h(b))),
                             OP("{ .reg .b32 x, y, z; .reg .b16 t; mov.b32 x, {%b, %a}; mov.b32 y, "
                                "{%a, %b}; mul.f16x2 z, x, y; mov.b32 {t, %d}, z; }",
                                half(double{h(a)} * h(b))),
                             OP("{ .reg .b32 x, y, z; .reg .b16 t; mov.b32 x, {%a, %b}; mov.b32 y, "
                                "{%b, %b}; fma.rn.f16x2 z, x, y, x; mov.b32 {%d, t}, z; }",
                                fma16(kHalf, a, b, a)),
                             OP("{ .reg .b32 x, y, z; .reg .b16 t; mov.b32 x, {%a, %b}; mov.b32 y, "
                                "{%b, %a}; set.lt.f16x2.f16x2 z, x, y; mov.b32 {%d, t}, z; }",
                                h(a) < h(b) ? 0x3C00 : 0),
                             OP("{ .reg .b32 x, y; .reg .pred p, q; mov.b32 x, {%a, %b}; mov.b32 "
                                "y, {%b, %a}; setp.gt.f16x2 p|q, x, y; selp.b16 %d, %a, %b, q; }",
                                h(b) > h(a) ? a : b),
                         });
}
