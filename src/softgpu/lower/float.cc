// SPDX-License-Identifier: Apache-2.0
// f32 and f64 arithmetic.
#include "softgpu/lower/arith.h"

namespace rgpu::softgpu::lower {

V float_min_max(Lower &l, std::string_view type, std::string_view suffix, bool min, bool nan,
                const V &a, const V &b)
{
    std::string t(type);
    V r = l.intrinsic(t, join(min ? "llvm.minimum." : "llvm.maximum.", suffix), {{t, a}, {t, b}});
    if (nan) return r;
    V a_is_nan = l.def("fcmp uno ", t, " ", a, ", 0.0");
    r = l.def("select i1 ", a_is_nan, ", ", t, " ", b, ", ", t, " ", r);
    V b_is_nan = l.def("fcmp uno ", t, " ", b, ", 0.0");
    return l.def("select i1 ", b_is_nan, ", ", t, " ", a, ", ", t, " ", r);
}

namespace {

V in(Lower &l, unsigned i)
{
    Type t = l.type();
    return flush(l, t, l.get(i, t));
}

void out(Lower &l, const V &v) { l.set(finish(l, l.type(), v), l.type()); }

void binary(Lower &l)
{
    Type t = l.type();
    std::string type = ll(t), op(l.form().row->opcode);
    V a = in(l, 1), b = in(l, 2);
    std::string_view round = rounding(l);
    if (op == "div" && (l.has("approx") || l.has("full"))) round = "rn";
    if (round == "rn") return out(l, l.def("f", op, " ", type, " ", a, ", ", b));
    out(l, l.helper(type, join("h.", op, ".", round, ".", float_suffix(t)),
                    join(type, " ", a, ", ", type, " ", b)));
}

// Both halves of a 64-bit register, each as the instruction for one.
void pair(Lower &l)
{
    std::string op(l.form().row->opcode);
    std::string_view round = rounding(l);
    std::vector<V> lanes;
    for (const char *shift : {"0", "32"}) {
        std::string arguments;
        std::vector<V> values;
        for (unsigned i = 1; i < l.operands(); ++i) {
            V half =
                l.def("trunc i64 ", l.def("lshr i64 ", l.get(i, kB64), ", ", shift), " to i32");
            values.push_back(flush(l, kF32, l.cast(half, "i32", "float")));
            arguments += join(i > 1 ? ", float " : "float ", values.back());
        }
        V r;
        if (round != "rn")
            r = l.helper("float", join("h.", op, ".", round, ".f32"), arguments);
        else if (op == "fma")
            r = l.intrinsic("float", "llvm.fma.f32",
                            {{"float", values[0]}, {"float", values[1]}, {"float", values[2]}});
        else
            r = l.def("f", op, " float ", values[0], ", ", values[1]);
        lanes.push_back(l.def("zext i32 ", l.cast(finish(l, kF32, r), "float", "i32"), " to i64"));
    }
    l.set(l.def("or i64 ", lanes[0], ", ", l.def("shl i64 ", lanes[1], ", 32")), kB64);
}

void fma(Lower &l)
{
    Type t = l.type();
    std::string type = ll(t);
    V a = in(l, 1), b = in(l, 2), c = in(l, 3);
    std::string_view round = rounding(l);
    if (round == "rn")
        return out(
            l, l.intrinsic(type, "llvm.fma." + float_suffix(t), {{type, a}, {type, b}, {type, c}}));
    out(l, l.helper(type, join("h.fma.", round, ".", float_suffix(t)),
                    join(type, " ", a, ", ", type, " ", b, ", ", type, " ", c)));
}

void sqrt_(Lower &l)
{
    Type t = l.type();
    std::string type = ll(t);
    V a = in(l, 1);
    std::string_view round = rounding(l);
    if (round == "rn")
        return out(l, l.intrinsic(type, "llvm.sqrt." + float_suffix(t), {{type, a}}));
    out(l, l.helper(type, join("h.sqrt.", round, ".", float_suffix(t)), join(type, " ", a)));
}

void rcp(Lower &l)
{
    Type t = l.type();
    std::string type = ll(t);
    V a = in(l, 1);
    std::string_view round = rounding(l);
    if (round == "rn") return out(l, l.def("fdiv ", type, " 1.0, ", a));
    out(l, l.helper(type, join("h.div.", round, ".", float_suffix(t)),
                    join(type, " 1.0, ", type, " ", a)));
}

// Through double, so that the result is at most half a unit off.
void rsqrt(Lower &l)
{
    Type t = l.type();
    V a = in(l, 1);
    V wide = t.width == 32 ? l.def("fpext float ", a, " to double") : a;
    V r = l.def("fdiv double 1.0, ", l.intrinsic("double", "llvm.sqrt.f64", {{"double", wide}}));
    out(l, t.width == 32 ? l.def("fptrunc double ", r, " to float") : r);
}

void function(Lower &l, const char *name)
{
    V a = in(l, 1);
    out(l, l.helper("float", name, "float " + a));
}

void sign(Lower &l)
{
    Type t = l.type();
    std::string type = ll(t);
    V a = l.get(1, t);
    V r = l.form().row->opcode == "neg"
              ? l.def("fneg ", type, " ", a)
              : l.intrinsic(type, "llvm.fabs." + float_suffix(t), {{type, a}});
    l.set(flush(l, t, r), t);
}

void copysign(Lower &l)
{
    Type t = l.type();
    V a = l.get(1, t), b = l.get(2, t);
    l.set(l.intrinsic(ll(t), "llvm.copysign." + float_suffix(t), {{ll(t), b}, {ll(t), a}}), t);
}

void min_max(Lower &l)
{
    Type t = l.type();
    std::string type = ll(t), suffix = float_suffix(t);
    bool min = l.form().row->opcode == "min", nan = l.has("NaN");
    V a = in(l, 1), b = in(l, 2);
    V sign;
    if (l.has("xorsign")) {
        V ia = l.cast(a, type, "i32"), ib = l.cast(b, type, "i32");
        sign = l.def("and i32 ", l.def("xor i32 ", ia, ", ", ib), ", -2147483648");
    }
    if (l.has("abs")) {
        a = l.intrinsic(type, "llvm.fabs." + suffix, {{type, a}});
        b = l.intrinsic(type, "llvm.fabs." + suffix, {{type, b}});
    }
    V r = float_min_max(l, type, suffix, min, nan, a, b);
    if (l.operands() == 4) {
        V c = in(l, 3);
        if (l.has("abs")) c = l.intrinsic(type, "llvm.fabs." + suffix, {{type, c}});
        r = float_min_max(l, type, suffix, min, nan, r, c);
    }
    if (!sign.empty())
        r = l.cast(l.def("or i32 ", l.cast(r, type, "i32"), ", ", sign), "i32", type);
    out(l, r);
}

void testp(Lower &l)
{
    Type t = l.type();
    // The classes of llvm.is.fpclass.
    int mask = l.has("finite")       ? 0x1F8
               : l.has("infinite")   ? 0x204
               : l.has("number")     ? 0x3FC
               : l.has("notanumber") ? 0x3
               : l.has("normal")     ? 0x108
                                     : 0x90;
    V r = l.intrinsic("i1", "llvm.is.fpclass." + float_suffix(t),
                      {{ll(t), l.get(1, t)}, {"i32", std::to_string(mask)}});
    l.set(r, kPred);
}

void ex2(Lower &l) { function(l, "h.ex2"); }
void lg2(Lower &l) { function(l, "h.lg2"); }
void sin_(Lower &l) { function(l, "h.sin"); }
void cos_(Lower &l) { function(l, "h.cos"); }
void tanh_(Lower &l) { function(l, "h.tanh"); }

const Row kRows[] = {
    {"add", "~?$round ?ftz ?sat f32", 3, 3, binary},
    {"add", "?$round f64", 3, 3, binary},
    {"sub", "~?$round ?ftz ?sat f32", 3, 3, binary},
    {"sub", "?$round f64", 3, 3, binary},
    {"mul", "~?$round ?ftz ?sat f32", 3, 3, binary},
    {"mul", "?$round f64", 3, 3, binary},
    {"fma", "~$round ?ftz ?sat f32", 4, 4, fma},
    {"fma", "$round f64", 4, 4, fma},
    {"add", "~?$round ?ftz f32x2", 3, 3, pair},
    {"sub", "~?$round ?ftz f32x2", 3, 3, pair},
    {"mul", "~?$round ?ftz f32x2", 3, 3, pair},
    {"fma", "~$round ?ftz f32x2", 4, 4, pair},
    {"mad", "~?$round ?ftz ?sat f32", 4, 4, fma},
    {"mad", "?$round f64", 4, 4, fma},
    {"div", "~$round|approx|full ?ftz f32", 3, 3, binary},
    {"div", "$round f64", 3, 3, binary},
    {"rcp", "~$round|approx ?ftz f32|f64", 2, 2, rcp},
    {"sqrt", "~$round|approx ?ftz f32", 2, 2, sqrt_},
    {"sqrt", "$round f64", 2, 2, sqrt_},
    {"rsqrt", "~approx ?ftz f32|f64", 2, 2, rsqrt},
    {"sin", "~approx ?ftz f32", 2, 2, sin_},
    {"cos", "~approx ?ftz f32", 2, 2, cos_},
    {"lg2", "~approx ?ftz f32", 2, 2, lg2},
    {"ex2", "~approx ?ftz f32", 2, 2, ex2},
    {"tanh", "approx f32", 2, 2, tanh_},
    {"abs", "~?ftz f32|f64", 2, 2, sign},
    {"neg", "~?ftz f32|f64", 2, 2, sign},
    {"copysign", "f32|f64", 3, 3, copysign},
    {"min", "~?ftz ?NaN ?xorsign ?abs f32", 3, 4, min_max},
    {"max", "~?ftz ?NaN ?xorsign ?abs f32", 3, 4, min_max},
    {"min", "f64", 3, 3, min_max},
    {"max", "f64", 3, 3, min_max},
    {"testp", "finite|infinite|number|notanumber|normal|subnormal f32|f64", 2, 2, testp},
};

}  // namespace

std::span<const Row> float_rows() { return kRows; }

}  // namespace rgpu::softgpu::lower
