// SPDX-License-Identifier: Apache-2.0
// Comparisons: set and setp.
#include "softgpu/lower/arith.h"

namespace rgpu::softgpu::lower {

V compare(Lower &l, std::string_view op, Type t, const V &a, const V &b)
{
    if (t.kind == Type::flt || t.kind == Type::bf) {
        struct Name {
            std::string_view ptx, llvm;
        };
        static constexpr Name names[] = {
            {"eq", "oeq"},  {"ne", "one"},  {"lt", "olt"},  {"le", "ole"},  {"gt", "ogt"},
            {"ge", "oge"},  {"equ", "ueq"}, {"neu", "une"}, {"ltu", "ult"}, {"leu", "ule"},
            {"gtu", "ugt"}, {"geu", "uge"}, {"num", "ord"}, {"nan", "uno"}};
        for (const Name &n : names)
            if (n.ptx == op) return l.def("fcmp ", n.llvm, " ", ll(t), " ", a, ", ", b);
        l.fail("no comparison of floats");
        return "false";
    }
    std::string_view base = op;
    bool is_signed = t.is_signed();
    for (auto [ptx, plain] : {std::pair{"lo", "lt"}, {"ls", "le"}, {"hi", "gt"}, {"hs", "ge"}})
        if (op == ptx) {
            base = plain;
            is_signed = false;
        }
    if (base != "eq" && base != "ne" && base != "lt" && base != "le" && base != "gt" &&
        base != "ge") {
        l.fail("no comparison of integers");
        return "false";
    }
    bool equality = base == "eq" || base == "ne";
    return l.def("icmp ", equality ? "" : is_signed ? "s" : "u", base, " ", ll(t), " ", a, ", ", b);
}

namespace {

// One truth per lane of the source type.
std::vector<V> truths(Lower &l, Type t)
{
    std::string_view op = l.form().modifiers[0];
    V a = l.get(1, t), b = l.get(2, t);
    std::vector<V> results;
    if (t.kind == Type::bf || (t.kind == Type::flt && t.width == 16)) {
        for (unsigned i = 0; i < t.lanes; ++i) {
            V x = flush(l, kF32, half_to_float(l, t, half_lane(l, t, a, i)));
            V y = flush(l, kF32, half_to_float(l, t, half_lane(l, t, b, i)));
            results.push_back(compare(l, op, kF32, x, y));
        }
    } else {
        if (t.kind == Type::flt) {
            a = flush(l, t, a);
            b = flush(l, t, b);
        }
        results.push_back(compare(l, op, t, a, b));
    }
    return results;
}

std::string_view combination(Lower &l)
{
    for (std::string_view b : {"and", "or", "xor"})
        if (l.has(b)) return b;
    return {};
}

void setp(Lower &l)
{
    Type t = l.type();
    std::vector<V> r = truths(l, t);
    std::string_view combine = combination(l);
    const Operand &d = l.operand(0);
    V c;
    if (!combine.empty()) {
        if (l.operands() != 4) return l.fail("a predicate to combine with is missing");
        c = l.get(3, kPred);
    }
    auto combined = [&](const V &v) {
        return combine.empty() ? v : l.def(combine, " i1 ", v, ", ", c);
    };
    if (d.kind != Operand::pair) return l.set(combined(r[0]), kPred);
    // Of pairs p|q has a lane each; else q is the opposite.
    V second = t.lanes == 2 ? r[1] : l.def("xor i1 ", r[0], ", true");
    l.write(l.child(d, 0), combined(r[0]), kPred);
    l.write(l.child(d, 1), combined(second), kPred);
}

void set(Lower &l)
{
    Type d = l.type(0), t = l.type(1);
    std::vector<V> r = truths(l, t);
    std::string_view combine = combination(l);
    std::vector<V> lanes;
    for (V v : r) {
        if (!combine.empty()) v = l.def(combine, " i1 ", v, ", ", l.get(3, kPred));
        if (d.integer()) {
            lanes.push_back(l.def("sext i1 ", v, " to ",
                                  d.lanes == 2 ? "i16" : ll_int(t.lanes == 2 ? 16 : d.width)));
        } else if (d.width == 32) {
            lanes.push_back(l.select(v, kF32, "1.0", "0.0"));
        } else {
            lanes.push_back(l.select(v, kB16, d.kind == Type::bf ? "16256" : "15360", "0"));
        }
    }
    if (t.lanes == 2) return l.set(half_join(l, kB32, lanes), kB32);
    if (d.width == 16 && !d.integer()) return l.set(half_join(l, d, lanes), d);
    l.set(lanes[0], d);
}

const Row kRows[] = {
    {"setp", "$compare ?$bool ?ftz $int|$bits|f32|f64|f16|f16x2|bf16|bf16x2", 3, 4, setp},
    {"set",
     "$compare ?$bool ?ftz u16|s16|u32|s32|f32|f16|f16x2|bf16|bf16x2 "
     "$int|$bits|f32|f64|f16|f16x2|bf16|bf16x2",
     3, 4, set},
};

}  // namespace

std::span<const Row> compare_rows() { return kRows; }

}  // namespace rgpu::softgpu::lower
