// SPDX-License-Identifier: Apache-2.0
// Pieces of floating point that several groups share. Each writes instructions through the Lower it
// is given, and returns the value.
#pragma once

#include "softgpu/lower/lower.h"

namespace rgpu::softgpu::lower {

// rn, rz, rm or rp as written, rn where nothing is.
inline std::string_view rounding(const Lower &l)
{
    for (std::string_view r : {"rz", "rm", "rp"})
        if (l.has(r)) return r;
    return "rn";
}

inline std::string float_suffix(Type t)
{
    return t.width == 64 ? "f64" : t.width == 32 ? "f32" : "f16";
}

// Subnormals to zero where the instruction says .ftz (f32 only).
inline V flush(Lower &l, Type t, const V &v)
{
    return l.has("ftz") && t.width == 32 ? l.helper("float", "h.ftz", "float " + v) : v;
}

// Clamps to [0, 1], NaN to 0.
inline V saturate(Lower &l, Type t, const V &v)
{
    V positive = l.def("fcmp ogt ", ll(t), " ", v, ", 0.0");
    V low = l.select(positive, t, v, "0.0");
    V below = l.def("fcmp olt ", ll(t), " ", low, ", 1.0");
    return l.select(below, t, low, "1.0");
}

// .ftz and .sat, where the instruction has them.
inline V finish(Lower &l, Type t, const V &v)
{
    V flushed = flush(l, t, v);
    return l.has("sat") ? saturate(l, t, flushed) : flushed;
}

// One lane of f16, bf16, f16x2 or bf16x2 as float, and back (round to nearest even).
V half_to_float(Lower &l, Type t, const V &bits16);
V float_to_half(Lower &l, Type t, const V &f);
// The 16-bit lane i of a value of type t, and the value of such lanes.
V half_lane(Lower &l, Type t, const V &value, unsigned i);
V half_join(Lower &l, Type t, const std::vector<V> &lanes);

// The truth of `a OP b`.
V compare(Lower &l, std::string_view op, Type t, const V &a, const V &b);

// min or max as PTX defines them; nan: NaN wins, else the number does.
V float_min_max(Lower &l, std::string_view type, std::string_view suffix, bool min, bool nan,
                const V &a, const V &b);

}  // namespace rgpu::softgpu::lower
