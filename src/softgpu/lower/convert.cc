// SPDX-License-Identifier: Apache-2.0
// cvt: between all types, with PTX's rounding and saturation.
#include "softgpu/lower/arith.h"

namespace rgpu::softgpu::lower {

namespace {

bool is_float(Type t) { return t.kind == Type::flt || t.kind == Type::bf; }

// A rounding to an integral value, or nothing.
std::string_view integral(const Lower &l)
{
    if (l.has("rni")) return "roundeven";
    if (l.has("rzi")) return "trunc";
    if (l.has("rmi")) return "floor";
    if (l.has("rpi")) return "ceil";
    return {};
}

// [low, high] of a saturating conversion between integers, as LLVM constants of the source's type.
V clamp(Lower &l, Type d, Type s, V v)
{
    std::string type = ll(s);
    unsigned value_bits = d.width - (d.is_signed() ? 1 : 0);
    bool check_high = s.width - (s.is_signed() ? 1u : 0u) > value_bits;
    bool check_low = s.is_signed() && (!d.is_signed() || d.width < s.width);
    if (check_high) {
        std::string high =
            std::to_string(value_bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << value_bits) - 1);
        v = l.intrinsic(type, join("llvm.", s.is_signed() ? "s" : "u", "min.", type),
                        {{type, v}, {type, high}});
    }
    if (check_low) {
        std::string low = d.is_signed() ? std::to_string(-(int64_t{1} << (d.width - 1))) : "0";
        v = l.intrinsic(type, "llvm.smax." + type, {{type, v}, {type, low}});
    }
    return v;
}

void int_to_int(Lower &l, Type d, Type s)
{
    V v = l.get(1, s);
    if (l.has("sat")) v = clamp(l, d, s, v);
    l.set(l.resize(v, s.width, d.width, s.is_signed()), d);
}

// The source as float or double: halves are widened.
V float_source(Lower &l, Type &s)
{
    if (s.width == 16) {
        V v = half_to_float(l, s, half_lane(l, s, l.get(1, s), 0));
        s = kF32;
        return v;
    }
    return flush(l, s, l.get(1, s));
}

void float_to_int(Lower &l, Type d, Type s)
{
    bool wide = s.width == 64 || d.width == 64;
    V v = float_source(l, s);
    std::string type = ll(s);
    std::string_view how = integral(l);
    if (!how.empty() && how != "trunc")
        v = l.intrinsic(type, join("llvm.", how, ".", float_suffix(s)), {{type, v}});
    V r = l.intrinsic(
        ll(d), join("llvm.fpto", d.is_signed() ? "s" : "u", "i.sat.", ll(d), ".", float_suffix(s)),
        {{type, v}});
    // LLVM's NaN gives 0. PTX 9.0, cvt: 1 << (BitWidth(dst) - 1) where the source is f64 or the
    // destination has 64 bits.
    if (wide)
        r = l.select(l.def("fcmp uno ", type, " ", v, ", ", v), d,
                     std::to_string(INT64_MIN >> (64 - d.width)), r);
    l.set(r, d);
}

// A float rounded to a half's format.
V to_half(Lower &l, Type d, const V &f)
{
    std::string_view round = rounding(l);
    if (round == "rn") return float_to_half(l, d, f);
    return l.helper("i16", join(d.kind == Type::bf ? "h.bf16." : "h.f16.", round), "float " + f);
}

void int_to_float(Lower &l, Type d, Type s)
{
    V v = l.get(1, s);
    std::string_view round = rounding(l);
    if (d.width == 16) {
        // Exactly to double where it fits, else with a sticky bit; then by way of float, rounded to
        // odd.
        V wide = l.resize(v, s.width, 64, s.is_signed());
        V f = l.helper("float", s.is_signed() ? "h.s64.odd" : "h.u64.odd", "i64 " + wide);
        V h = to_half(l, d, f);
        return l.set(l.cast(h, "i16", ll(d)), d);
    }
    V r;
    if (round == "rn") {
        r = l.def(s.is_signed() ? "sitofp " : "uitofp ", ll(s), " ", v, " to ", ll(d));
    } else {
        V wide = l.resize(v, s.width, 64, s.is_signed());
        bool top = !s.is_signed() && s.width == 64;
        r = l.helper(ll(d), join(top ? "h.u64." : "h.s64.", round, ".", float_suffix(d)),
                     "i64 " + wide);
    }
    l.set(l.has("sat") ? saturate(l, d, r) : r, d);
}

void float_to_float(Lower &l, Type d, Type s)
{
    V v = float_source(l, s);
    std::string type = ll(s);
    std::string_view how = integral(l), round = rounding(l);
    if (!how.empty()) {
        v = l.intrinsic(type, join("llvm.", how, ".", float_suffix(s)), {{type, v}});
        round = "rn";
    }
    if (d.width == 16) {
        if (s.width == 64) v = l.helper("float", "h.f64.odd", "double " + v);
        if (l.has("sat")) v = saturate(l, kF32, v);
        if (l.has("relu")) v = l.select(l.def("fcmp ole float ", v, ", 0.0"), kF32, "0.0", v);
        V h = to_half(l, d, v);
        if (l.has("satfinite"))
            h = l.helper("i16", d.kind == Type::bf ? "h.bf16.finite" : "h.f16.finite", "i16 " + h);
        return l.set(l.cast(h, "i16", ll(d)), d);
    }
    if (d.width > s.width)
        v = l.def("fpext float ", v, " to double");
    else if (d.width < s.width && round == "rn")
        v = l.def("fptrunc double ", v, " to float");
    else if (d.width < s.width)
        v = l.helper("float", join("h.narrow.", round), "double " + v);
    l.set(finish(l, d, v), d);
}

void convert(Lower &l)
{
    Type d = l.type(0), s = l.form().type_count > 1 ? l.type(1) : Type{};
    if (!is_float(d) && !is_float(s))
        int_to_int(l, d, s);
    else if (!is_float(d))
        float_to_int(l, d, s);
    else if (!is_float(s))
        int_to_float(l, d, s);
    else
        float_to_float(l, d, s);
}

// d = {a as the high half, b as the low half}
void pack_halves(Lower &l)
{
    Type d = l.type(0);
    std::vector<V> lanes;
    for (unsigned i : {2u, 1u}) {
        V v = flush(l, kF32, l.get(i, kF32));
        if (l.has("relu")) v = l.select(l.def("fcmp ole float ", v, ", 0.0"), kF32, "0.0", v);
        V h = to_half(l, d, v);
        if (l.has("satfinite"))
            h = l.helper("i16", d.kind == Type::bf ? "h.bf16.finite" : "h.f16.finite", "i16 " + h);
        lanes.push_back(h);
    }
    l.set(half_join(l, d, lanes), d);
}

void tf32(Lower &l)
{
    V v = l.get(1, kF32);
    if (l.has("relu")) v = l.select(l.def("fcmp ole float ", v, ", 0.0"), kF32, "0.0", v);
    l.set(l.helper("i32",
                   l.has("rna")  ? "h.tf32.rna"
                   : l.has("rz") ? "h.tf32.rz"
                                 : "h.tf32.rn",
                   "float " + v),
          kB32);
}

// Two floats, or two halves, to two 8-bit floats; the first operand is the high one.
void pack_fp8(Lower &l)
{
    Type d = l.type(0), s = l.type(1);
    std::string name = d.kind == Type::e4m3 ? "h.e4m3" : "h.e5m2";
    V parts[2];
    for (unsigned i = 0; i < 2; ++i) {
        V f = s.lanes == 2 ? half_to_float(l, s, half_lane(l, s, l.get(1, s), i))
                           : l.get(i ? 1 : 2, kF32);
        if (l.has("relu")) f = l.select(l.def("fcmp ole float ", f, ", 0.0"), kF32, "0.0", f);
        parts[i] = l.helper("i16", name, "float " + f);
    }
    l.set(l.def("or i16 ", parts[0], ", ", l.def("shl i16 ", parts[1], ", 8")), kB16);
}

void unpack_fp8(Lower &l)
{
    Type s = l.type(1);
    V v = l.get(1, kB16);
    std::vector<V> lanes;
    for (unsigned i = 0; i < 2; ++i) {
        V byte = l.def("and i16 ", i ? l.def("lshr i16 ", v, ", 8") : v, ", 255");
        V f = l.helper("float", s.kind == Type::e4m3 ? "h.e4m3.float" : "h.e5m2.float",
                       "i16 " + byte);
        if (l.has("relu")) f = l.select(l.def("fcmp ole float ", f, ", 0.0"), kF32, "0.0", f);
        lanes.push_back(float_to_half(l, kF16, f));
    }
    l.set(half_join(l, kF16x2, lanes), kF16x2);
}

// cvt.pack.sat: a and b as two small integers above those of c.
void pack_integers(Lower &l)
{
    Type d = l.type(0), s = l.type(1);
    V a = l.resize(clamp(l, d, s, l.get(1, s)), 32, d.width, false),
      b = l.resize(clamp(l, d, s, l.get(2, s)), 32, d.width, false);
    V high = l.def("shl i32 ", l.resize(a, d.width, 32, false), ", ", d.width);
    V pair = l.def("or i32 ", high, ", ", l.resize(b, d.width, 32, false));
    if (d.width < 16) {
        V rest = l.operands() > 3 ? l.get(3, kB32) : "0";
        pair = l.def("or i32 ", pair, ", ", l.def("shl i32 ", rest, ", ", 2 * d.width));
    }
    l.set(pair, kB32);
}

const Row kRows[] = {
    {"cvt", "rna|rn|rz ?relu ?satfinite tf32 f32", 2, 2, tf32},
    {"cvt", "rn|rz ?relu ?satfinite f16x2|bf16x2 f32", 3, 3, pack_halves},
    {"cvt", "rn|rz satfinite ?relu f16x2|bf16x2 f32", 3, 3, pack_halves},
    {"cvt", "rn satfinite ?relu e4m3x2|e5m2x2 f32", 3, 3, pack_fp8},
    {"cvt", "rn satfinite ?relu e4m3x2|e5m2x2 f16x2", 2, 2, pack_fp8},
    {"cvt", "rn ?relu f16x2 e4m3x2|e5m2x2", 2, 2, unpack_fp8},
    {"cvt", "pack sat u16|s16 s32", 3, 3, pack_integers},
    {"cvt", "pack sat u8|s8 s32 b32", 4, 4, pack_integers},
    {"cvt",
     "?rni|rzi|rmi|rpi|rn|rz|rm|rp|rna ?ftz ?relu ?satfinite ?sat "
     "u8|s8|u16|s16|u32|s32|u64|s64|f16|bf16|f32|f64 "
     "u8|s8|u16|s16|u32|s32|u64|s64|f16|bf16|f32|f64",
     2, 2, convert},
};

}  // namespace

std::span<const Row> convert_rows() { return kRows; }

}  // namespace rgpu::softgpu::lower
