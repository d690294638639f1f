// SPDX-License-Identifier: Apache-2.0
// f32 and f64 instructions against the host's arithmetic, in every rounding mode, bit for bit.
#include "lower_support.h"

#include <cfenv>

using namespace lower_test;

#define OP(text, expression) \
    { \
        text, EXPECT_OF(expression) \
    }

namespace {

struct Rounding {
    explicit Rounding(int mode) { fesetround(mode); }
    ~Rounding() { fesetround(FE_TONEAREST); }
};

// Computed with the host's rounding mode; volatile keeps the compiler from doing it beforehand.
template <class T, class F> T rounded(int mode, F f)
{
    Rounding r(mode);
    volatile T result = f();
    return result;
}

enum { kRz = FE_TOWARDZERO, kRm = FE_DOWNWARD, kRp = FE_UPWARD };

uint64_t add32(int m, uint64_t a, uint64_t b)
{
    volatile float x = f32(a), y = f32(b);
    return bits(rounded<float>(m, [&] { return x + y; }));
}
uint64_t sub32(int m, uint64_t a, uint64_t b)
{
    volatile float x = f32(a), y = f32(b);
    return bits(rounded<float>(m, [&] { return x - y; }));
}
uint64_t mul32(int m, uint64_t a, uint64_t b)
{
    volatile float x = f32(a), y = f32(b);
    return bits(rounded<float>(m, [&] { return x * y; }));
}
uint64_t div32(int m, uint64_t a, uint64_t b)
{
    volatile float x = f32(a), y = f32(b);
    return bits(rounded<float>(m, [&] { return x / y; }));
}
uint64_t add64(int m, uint64_t a, uint64_t b)
{
    volatile double x = f64(a), y = f64(b);
    return bits(rounded<double>(m, [&] { return x + y; }));
}
uint64_t sub64(int m, uint64_t a, uint64_t b)
{
    volatile double x = f64(a), y = f64(b);
    return bits(rounded<double>(m, [&] { return x - y; }));
}
uint64_t mul64(int m, uint64_t a, uint64_t b)
{
    volatile double x = f64(a), y = f64(b);
    return bits(rounded<double>(m, [&] { return x * y; }));
}
uint64_t div64(int m, uint64_t a, uint64_t b)
{
    volatile double x = f64(a), y = f64(b);
    return bits(rounded<double>(m, [&] { return x / y; }));
}
uint64_t fma32(int m, uint64_t a, uint64_t b, uint64_t c)
{
    volatile float x = f32(a), y = f32(b), z = f32(c);
    return bits(rounded<float>(m, [&] { return std::fma(x, y, z); }));
}
uint64_t fma64(int m, uint64_t a, uint64_t b, uint64_t c)
{
    volatile double x = f64(a), y = f64(b), z = f64(c);
    return bits(rounded<double>(m, [&] { return std::fma(x, y, z); }));
}
uint64_t sqrt32(int m, uint64_t a)
{
    volatile float x = f32(a);
    return bits(rounded<float>(m, [&] { return std::sqrt(x); }));
}
uint64_t sqrt64(int m, uint64_t a)
{
    volatile double x = f64(a);
    return bits(rounded<double>(m, [&] { return std::sqrt(x); }));
}
constexpr int kRn = FE_TONEAREST;
const uint64_t kOne = 0x3F800000, kOneDouble = 0x3FF0000000000000;

uint64_t ftz(uint64_t v) { return std::fpclassify(f32(v)) == FP_SUBNORMAL ? v & 0x80000000 : v; }

uint64_t sat(uint64_t v)
{
    float x = f32(v);
    return bits(!(x > 0) ? 0.0f : x > 1 ? 1.0f : x);
}

// PTX: NaN loses, -0 is less than +0.
template <class T> T least(T a, T b)
{
    if (std::isnan(a)) return b;
    if (std::isnan(b)) return a;
    if (a == b) return std::signbit(a) ? a : b;
    return a < b ? a : b;
}
template <class T> T most(T a, T b)
{
    if (std::isnan(a)) return b;
    if (std::isnan(b)) return a;
    if (a == b) return std::signbit(a) ? b : a;
    return a > b ? a : b;
}

// Within n units in the last place, or both so small or so large that it does not matter.
Operation close(const char *text, double (*f)(double), double units)
{
    return {text, [f, units](uint64_t a, uint64_t got, uint64_t, uint64_t) -> uint64_t {
                double want = f(f32(a)), have = f32(got);
                if (std::isnan(want)) return std::isnan(have);
                if (want == have || static_cast<float>(want) == f32(got)) return 1;
                double unit = std::max(std::ldexp(1.0, std::ilogb(want) - 23), 1.5e-45);
                return std::abs(want - have) <= units * unit;
            }};
}

}  // namespace

Test(lower_float, nearest_32)
{
    check(
        "f32 f32 f32",
        {
            OP("add.f32 %d, %a, %b;", add32(kRn, a, b)),
            OP("add.rn.f32 %d, %a, %b;", add32(kRn, a, b)),
            OP("sub.f32 %d, %a, %b;", sub32(kRn, a, b)),
            OP("mul.f32 %d, %a, %b;", mul32(kRn, a, b)),
            OP("div.rn.f32 %d, %a, %b;", div32(kRn, a, b)),
            OP("div.full.f32 %d, %a, %b;", div32(kRn, a, b)),
            OP("add.ftz.f32 %d, %a, %b;", ftz(add32(kRn, ftz(a), ftz(b)))),
            OP("mul.ftz.f32 %d, %a, %b;", ftz(mul32(kRn, ftz(a), ftz(b)))),
            OP("div.rn.ftz.f32 %d, %a, %b;", ftz(div32(kRn, ftz(a), ftz(b)))),
            OP("add.sat.f32 %d, %a, %b;", sat(add32(kRn, a, b))),
            OP("mul.rn.ftz.sat.f32 %d, %a, %b;", sat(ftz(mul32(kRn, ftz(a), ftz(b))))),
            OP("copysign.f32 %d, %a, %b;", (b & 0x7FFFFFFF) | (a & 0x80000000)),
            OP("min.f32 %d, %a, %b;", bits(least(f32(a), f32(b)))),
            OP("max.f32 %d, %a, %b;", bits(most(f32(a), f32(b)))),
            OP("min.ftz.f32 %d, %a, %b;", bits(least(f32(ftz(a)), f32(ftz(b))))),
            OP("max.NaN.f32 %d, %a, %b;",
               std::isnan(f32(a)) || std::isnan(f32(b)) ? 0x7FFFFFFF : bits(most(f32(a), f32(b)))),
            OP("min.xorsign.abs.f32 %d, %a, %b;",
               (bits(least(std::abs(f32(a)), std::abs(f32(b)))) & 0x7FFFFFFF) |
                   ((a ^ b) & 0x80000000)),
        });
    check("f32 f32", {
                         OP("abs.f32 %d, %a;", a & 0x7FFFFFFF),
                         OP("neg.f32 %d, %a;", a ^ 0x80000000),
                         OP("abs.ftz.f32 %d, %a;", ftz(a) & 0x7FFFFFFF),
                         OP("sqrt.rn.f32 %d, %a;", sqrt32(kRn, a)),
                         OP("sqrt.approx.f32 %d, %a;", sqrt32(kRn, a)),
                         OP("sqrt.rn.ftz.f32 %d, %a;", sqrt32(kRn, ftz(a))),
                         OP("rcp.rn.f32 %d, %a;", div32(kRn, kOne, a)),
                         OP("rcp.approx.ftz.f32 %d, %a;", ftz(div32(kRn, kOne, ftz(a)))),
                         OP("mov.f32 %d, 0f3FC00000;", bits(1.5f)),
                         OP("mov.f32 %d, 1.5;", bits(1.5f)),
                         OP("mov.f32 %d, -0.1;", bits(-0.1f)),
                         OP("add.f32 %d, %a, 0fBF800000;", add32(kRn, a, bits(-1.0f))),
                     });
}

Test(lower_float, directed_32)
{
    check("f32 f32 f32", {
                             OP("add.rz.f32 %d, %a, %b;", add32(kRz, a, b)),
                             OP("add.rm.f32 %d, %a, %b;", add32(kRm, a, b)),
                             OP("add.rp.f32 %d, %a, %b;", add32(kRp, a, b)),
                             OP("sub.rz.f32 %d, %a, %b;", sub32(kRz, a, b)),
                             OP("sub.rm.f32 %d, %a, %b;", sub32(kRm, a, b)),
                             OP("mul.rz.f32 %d, %a, %b;", mul32(kRz, a, b)),
                             OP("mul.rm.f32 %d, %a, %b;", mul32(kRm, a, b)),
                             OP("mul.rp.f32 %d, %a, %b;", mul32(kRp, a, b)),
                             OP("div.rz.f32 %d, %a, %b;", div32(kRz, a, b)),
                             OP("div.rm.f32 %d, %a, %b;", div32(kRm, a, b)),
                             OP("div.rp.f32 %d, %a, %b;", div32(kRp, a, b)),
                         });
    check("f32 f32", {
                         OP("sqrt.rz.f32 %d, %a;", sqrt32(kRz, a)),
                         OP("sqrt.rp.f32 %d, %a;", sqrt32(kRp, a)),
                         OP("rcp.rm.f32 %d, %a;", div32(kRm, kOne, a)),
                         OP("rcp.rz.f32 %d, %a;", div32(kRz, kOne, a)),
                     });
    check("f32 f32 f32 f32",
          {
              OP("fma.rn.f32 %d, %a, %b, %c;", fma32(kRn, a, b, c)),
              OP("fma.rz.f32 %d, %a, %b, %c;", fma32(kRz, a, b, c)),
              OP("fma.rm.f32 %d, %a, %b, %c;", fma32(kRm, a, b, c)),
              OP("fma.rp.f32 %d, %a, %b, %c;", fma32(kRp, a, b, c)),
              OP("fma.rn.ftz.f32 %d, %a, %b, %c;", ftz(fma32(kRn, ftz(a), ftz(b), ftz(c)))),
              OP("fma.rn.sat.f32 %d, %a, %b, %c;", sat(fma32(kRn, a, b, c))),
              OP("mad.rn.f32 %d, %a, %b, %c;", fma32(kRn, a, b, c)),
          });
}

// Of a pair one half is taken at a time: %d is its low half, its high one where the pairs are
// turned round.
#define LOW(op) \
    "{ .reg .b64 p, q, r; mov.b64 p, {%a, %c}; mov.b64 q, {%b, %a}; mov.b64 r, {%c, %b}; " op \
    "; mov.b64 {%d, _}, p; }"
#define HIGH(op) \
    "{ .reg .b64 p, q, r; mov.b64 p, {%c, %a}; mov.b64 q, {%a, %b}; mov.b64 r, {%b, %c}; " op \
    "; mov.b64 {_, %d}, p; }"

Test(lower_float, pairs)
{
    check("f32 f32 f32 f32",
          {
              OP(LOW("add.rn.f32x2 p, p, q"), add32(kRn, a, b)),
              OP(HIGH("add.rz.ftz.f32x2 p, p, q"), ftz(add32(kRz, ftz(a), ftz(b)))),
              OP(LOW("sub.f32x2 p, p, q"), sub32(kRn, a, b)),
              OP(HIGH("mul.rn.f32x2 p, p, q"), mul32(kRn, a, b)),
              OP(LOW("fma.rn.f32x2 p, p, q, r"), fma32(kRn, a, b, c)),
              OP(HIGH("fma.rn.f32x2 p, p, q, r"), fma32(kRn, a, b, c)),
              OP(HIGH("fma.rp.f32x2 p, p, q, r"), fma32(kRp, a, b, c)),
          });
}

Test(lower_float, all_roundings_64)
{
    check("f64 f64 f64",
          {
              OP("add.f64 %d, %a, %b;", add64(kRn, a, b)),
              OP("add.rz.f64 %d, %a, %b;", add64(kRz, a, b)),
              OP("sub.rm.f64 %d, %a, %b;", sub64(kRm, a, b)),
              OP("mul.rn.f64 %d, %a, %b;", mul64(kRn, a, b)),
              OP("mul.rp.f64 %d, %a, %b;", mul64(kRp, a, b)),
              OP("div.rn.f64 %d, %a, %b;", div64(kRn, a, b)),
              OP("div.rz.f64 %d, %a, %b;", div64(kRz, a, b)),
              OP("div.rm.f64 %d, %a, %b;", div64(kRm, a, b)),
              OP("min.f64 %d, %a, %b;", bits(least(f64(a), f64(b)))),
              OP("max.f64 %d, %a, %b;", bits(most(f64(a), f64(b)))),
              OP("copysign.f64 %d, %a, %b;", (b & ~(uint64_t{1} << 63)) | (a & uint64_t{1} << 63)),
          });
    check("f64 f64", {
                         OP("abs.f64 %d, %a;", a & ~(uint64_t{1} << 63)),
                         OP("neg.f64 %d, %a;", a ^ uint64_t{1} << 63),
                         OP("sqrt.rn.f64 %d, %a;", sqrt64(kRn, a)),
                         OP("sqrt.rm.f64 %d, %a;", sqrt64(kRm, a)),
                         OP("rcp.rn.f64 %d, %a;", div64(kRn, kOneDouble, a)),
                         OP("rcp.approx.ftz.f64 %d, %a;", div64(kRn, kOneDouble, a)),
                         OP("mov.f64 %d, 0d3FF8000000000000;", bits(1.5)),
                         OP("mov.f64 %d, 1e-3;", bits(1e-3)),
                     });
    check("f64 f64 f64 f64", {
                                 OP("fma.rn.f64 %d, %a, %b, %c;", fma64(kRn, a, b, c)),
                                 OP("fma.rz.f64 %d, %a, %b, %c;", fma64(kRz, a, b, c)),
                                 OP("fma.rp.f64 %d, %a, %b, %c;", fma64(kRp, a, b, c)),
                             });
}

Test(lower_float, comparisons)
{
    check("pred f32 f32",
          {
              OP("setp.eq.f32 %d, %a, %b;", f32(a) == f32(b)),
              OP("setp.ne.f32 %d, %a, %b;", f32(a) < f32(b) || f32(a) > f32(b)),
              OP("setp.lt.f32 %d, %a, %b;", f32(a) < f32(b)),
              OP("setp.le.f32 %d, %a, %b;", f32(a) <= f32(b)),
              OP("setp.gt.ftz.f32 %d, %a, %b;", f32(ftz(a)) > f32(ftz(b))),
              OP("setp.ge.f32 %d, %a, %b;", f32(a) >= f32(b)),
              OP("setp.equ.f32 %d, %a, %b;", !(f32(a) < f32(b) || f32(a) > f32(b))),
              OP("setp.neu.f32 %d, %a, %b;", !(f32(a) == f32(b))),
              OP("setp.ltu.f32 %d, %a, %b;", !(f32(a) >= f32(b))),
              OP("setp.leu.f32 %d, %a, %b;", !(f32(a) > f32(b))),
              OP("setp.gtu.f32 %d, %a, %b;", !(f32(a) <= f32(b))),
              OP("setp.geu.f32 %d, %a, %b;", !(f32(a) < f32(b))),
              OP("setp.num.f32 %d, %a, %b;", !std::isnan(f32(a)) && !std::isnan(f32(b))),
              OP("setp.nan.f32 %d, %a, %b;", std::isnan(f32(a)) || std::isnan(f32(b))),
          });
    check("pred f64 f64", {
                              OP("setp.lt.f64 %d, %a, %b;", f64(a) < f64(b)),
                              OP("setp.neu.f64 %d, %a, %b;", !(f64(a) == f64(b))),
                          });
    check("pred f32",
          {
              OP("testp.finite.f32 %d, %a;", std::isfinite(f32(a))),
              OP("testp.infinite.f32 %d, %a;", std::isinf(f32(a))),
              OP("testp.number.f32 %d, %a;", !std::isnan(f32(a))),
              OP("testp.notanumber.f32 %d, %a;", std::isnan(f32(a))),
              OP("testp.normal.f32 %d, %a;", std::isnormal(f32(a))),
              OP("testp.subnormal.f32 %d, %a;", std::fpclassify(f32(a)) == FP_SUBNORMAL),
          });
    check("f32 f32 f32", {
                             OP("set.lt.f32.f32 %d, %a, %b;", f32(a) < f32(b) ? kOne : 0),
                             OP("slct.f32.f32 %d, %a, %b, %b;", f32(b) >= 0 ? a : b),
                             OP("{ .reg .pred p; setp.lt.f32 p, %a, %b; selp.f32 %d, %a, %b, p; }",
                                f32(a) < f32(b) ? a : b),
                         });
    check("u32 f32 f32", {OP("set.ge.u32.f32 %d, %a, %b;", f32(a) >= f32(b) ? ~0u : 0)});
}

// The result is compared on the device's side of the table: %b is what the instruction gave.
Test(lower_float, approximate_functions)
{
    struct Function {
        const char *text;
        double (*f)(double);
        double units;
    };
    static const Function functions[] = {
        {"ex2.approx.f32 %d, %a;", std::exp2, 2.5},
        {"lg2.approx.f32 %d, %a;", std::log2, 2},
        {"sin.approx.f32 %d, %a;", std::sin, 2},
        {"cos.approx.f32 %d, %a;", std::cos, 2},
        {"tanh.approx.f32 %d, %a;", std::tanh, 2},
        {"rsqrt.approx.f32 %d, %a;", [](double x) { return 1 / std::sqrt(x); }, 1},
        {"rcp.approx.f32 %d, %a;", [](double x) { return 1 / x; }, 1},
    };
    std::vector<uint64_t> in;
    for (uint64_t e : kind("f32").edges) in.push_back(e);
    for (int i = 0; i < 4000; ++i) in.push_back(random_bits() & 0xFFFFFFFF);
    for (int i = -3000; i < 3000; ++i) in.push_back(bits(i * 0.0467f));
    in.resize(in.size() / 32 * 32);
    for (const Function &f : functions) {
        std::vector<uint64_t> out(in.size());
        launch(kHead +
                   ".visible .entry k(.param .u64 in, .param .u64 out) {\n.reg .b64 %p<5>; .reg "
                   ".b32 %i, %j; .reg .f32 %a, %d;\n"
                   "mov.u32 %i, %tid.x; mov.u32 %j, %ctaid.x; mad.lo.u32 %i, %j, 32, %i; "
                   "mul.wide.u32 %p0, %i, 8; ld.param.u64 %p1, [in]; ld.param.u64 %p2, [out];\n"
                   "add.u64 %p3, %p1, %p0; add.u64 %p4, %p2, %p0; ld.global.f32 %a, [%p3];\n" +
                   f.text + "\nst.global.f32 [%p4], %d; ret; }",
               {address(in), address(out)},
               {{static_cast<uint32_t>(in.size() / 32), 1, 1}, {32, 1, 1}});
        Operation test = close(f.text, f.f, f.units);
        unsigned wrong = 0;
        for (size_t i = 0; i < in.size(); ++i)
            if (!test.expected(in[i], out[i], 0, 0) && ++wrong < 10)
                cr_expect(false, "%s a=%a: got %a, want %a", f.text,
                          static_cast<double>(f32(in[i])), static_cast<double>(f32(out[i])),
                          f.f(f32(in[i])));
        cr_expect_eq(wrong, 0, "%s: %u wrong", f.text, wrong);
    }
}
