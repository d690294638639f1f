// SPDX-License-Identifier: Apache-2.0
// f16, bf16 and their pairs. Computed in float, whose results round to the right half: float has
// more than twice the digits. A product and sum in one rounding goes through h.fma.odd.
#include "softgpu/lower/arith.h"

#include <functional>

namespace rgpu::softgpu::lower {

V half_to_float(Lower &l, Type t, const V &bits)
{
    if (t.kind == Type::bf)
        return l.cast(l.def("shl i32 ", l.def("zext i16 ", bits, " to i32"), ", 16"), "i32",
                      "float");
    return l.def("fpext half ", l.cast(bits, "i16", "half"), " to float");
}

V float_to_half(Lower &l, Type t, const V &f)
{
    if (t.kind == Type::bf) return l.helper("i16", "h.bf16.rn", "float " + f);
    return l.cast(l.def("fptrunc float ", f, " to half"), "half", "i16");
}

V half_lane(Lower &l, Type t, const V &value, unsigned i)
{
    V bits = l.cast(value, ll(t), ll_int(t.total()));
    if (t.lanes == 1) return bits;
    return l.def("trunc i32 ", i ? l.def("lshr i32 ", bits, ", 16") : bits, " to i16");
}

V half_join(Lower &l, Type t, const std::vector<V> &lanes)
{
    if (lanes.size() == 1) return l.cast(lanes[0], "i16", ll(t));
    V low = l.def("zext i16 ", lanes[0], " to i32"), high = l.def("zext i16 ", lanes[1], " to i32");
    return l.cast(l.def("or i32 ", low, ", ", l.def("shl i32 ", high, ", 16")), "i32", ll(t));
}

namespace {

// Flushes a half's subnormals (f16 only, .ftz).
V flush16(Lower &l, Type t, const V &bits)
{
    if (!l.has("ftz") || t.kind == Type::bf) return bits;
    V none = l.def("icmp eq i16 ", l.def("and i16 ", bits, ", 31744"), ", 0");
    return l.def("select i1 ", none, ", i16 ", l.def("and i16 ", bits, ", -32768"), ", i16 ", bits);
}

// For each lane: inputs to float, `compute`, back to 16 bits.
void lanewise(Lower &l, unsigned inputs, const std::function<V(const std::vector<V> &)> &compute)
{
    Type t = l.type();
    std::vector<V> values, lanes;
    for (unsigned i = 0; i < inputs; ++i) values.push_back(l.get(i + 1, t));
    for (unsigned lane = 0; lane < t.lanes; ++lane) {
        std::vector<V> floats;
        for (const V &v : values)
            floats.push_back(half_to_float(l, t, flush16(l, t, half_lane(l, t, v, lane))));
        V r = compute(floats);
        if (l.has("sat")) r = saturate(l, kF32, r);
        if (l.has("relu")) {
            // NaN stays NaN.
            V negative = l.def("fcmp ole float ", r, ", 0.0");
            r = l.select(negative, kF32, "0.0", r);
        }
        lanes.push_back(flush16(l, t, float_to_half(l, t, r)));
    }
    l.set(half_join(l, t, lanes), t);
}

void binary(Lower &l)
{
    lanewise(l, 2, [&](const std::vector<V> &v) {
        return l.def("f", l.form().row->opcode, " float ", v[0], ", ", v[1]);
    });
}

void fma(Lower &l)
{
    lanewise(l, 3, [&](const std::vector<V> &v) {
        return l.helper("float", "h.fma.odd",
                        join("float ", v[0], ", float ", v[1], ", float ", v[2]));
    });
}

void min_max(Lower &l)
{
    lanewise(l, 2, [&](const std::vector<V> &v) {
        V a = v[0], b = v[1], sign;
        if (l.has("xorsign")) {
            V x = l.def("xor i32 ", l.cast(a, "float", "i32"), ", ", l.cast(b, "float", "i32"));
            sign = l.def("and i32 ", x, ", -2147483648");
        }
        if (l.has("abs")) {
            a = l.intrinsic("float", "llvm.fabs.f32", {{"float", a}});
            b = l.intrinsic("float", "llvm.fabs.f32", {{"float", b}});
        }
        V r = float_min_max(l, "float", "f32", l.form().row->opcode == "min", l.has("NaN"), a, b);
        if (!sign.empty())
            r = l.cast(l.def("or i32 ", l.cast(r, "float", "i32"), ", ", sign), "i32", "float");
        return r;
    });
}

// On the bits: NaNs keep theirs.
void sign(Lower &l)
{
    Type t = l.type();
    std::vector<V> lanes;
    V v = l.get(1, t);
    for (unsigned i = 0; i < t.lanes; ++i) {
        V bits = flush16(l, t, half_lane(l, t, v, i));
        lanes.push_back(l.form().row->opcode == "neg" ? l.def("xor i16 ", bits, ", -32768")
                                                      : l.def("and i16 ", bits, ", 32767"));
    }
    l.set(half_join(l, t, lanes), t);
}

void unary(Lower &l, const char *helper)
{
    lanewise(l, 1,
             [&](const std::vector<V> &v) { return l.helper("float", helper, "float " + v[0]); });
}

void ex2(Lower &l) { unary(l, "h.ex2"); }
void tanh_(Lower &l) { unary(l, "h.tanh"); }

const Row kRows[] = {
    {"add", "?rn ?ftz ?sat f16|f16x2", 3, 3, binary},
    {"add", "?rn bf16|bf16x2", 3, 3, binary},
    {"sub", "?rn ?ftz ?sat f16|f16x2", 3, 3, binary},
    {"sub", "?rn bf16|bf16x2", 3, 3, binary},
    {"mul", "?rn ?ftz ?sat f16|f16x2", 3, 3, binary},
    {"mul", "?rn bf16|bf16x2", 3, 3, binary},
    {"fma", "rn ?ftz ?sat ?relu f16|f16x2", 4, 4, fma},
    {"fma", "rn ?relu bf16|bf16x2", 4, 4, fma},
    {"min", "?ftz ?NaN ?xorsign ?abs f16|f16x2|bf16|bf16x2", 3, 3, min_max},
    {"max", "?ftz ?NaN ?xorsign ?abs f16|f16x2|bf16|bf16x2", 3, 3, min_max},
    {"neg", "?ftz f16|f16x2|bf16|bf16x2", 2, 2, sign},
    {"abs", "?ftz f16|f16x2|bf16|bf16x2", 2, 2, sign},
    {"ex2", "approx ?ftz f16|f16x2|bf16|bf16x2", 2, 2, ex2},
    {"tanh", "approx f16|f16x2|bf16|bf16x2", 2, 2, tanh_},
};

}  // namespace

std::span<const Row> half_rows() { return kRows; }

}  // namespace rgpu::softgpu::lower
