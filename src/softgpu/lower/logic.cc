// SPDX-License-Identifier: Apache-2.0
// Bitwise logic, shifts, permutes, moves and selections.
#include "softgpu/lower/lower.h"

#include "softgpu/ptx/grammar.h"

namespace rgpu::softgpu::lower {

namespace {

void bitwise(Lower &l)
{
    Type t = l.type();
    V a = l.get(1, t), b = l.get(2, t);
    l.set(l.def(l.form().row->opcode, " ", ll(t), " ", a, ", ", b), t);
}

void not_(Lower &l)
{
    Type t = l.type();
    V a = l.get(1, t);
    l.set(l.def("xor ", ll(t), " ", a, ", ", t.kind == Type::pred ? "true" : "-1"), t);
}

void cnot(Lower &l)
{
    Type t = l.type();
    V zero = l.def("icmp eq ", ll(t), " ", l.get(1, t), ", 0");
    l.set(l.def("zext i1 ", zero, " to ", ll(t)), t);
}

// Any function of three bits, by its truth table: the sum of the minterms. LLVM simplifies.
V lookup(Lower &l, const V &a, const V &b, const V &c, unsigned table)
{
    V sum;
    const V *in[] = {&a, &b, &c};
    V inverted[3];
    for (int i = 0; i < 3; ++i) inverted[i] = l.def("xor i32 ", *in[i], ", -1");
    for (unsigned row = 0; row < 8; ++row) {
        if (!(table >> row & 1)) continue;
        V x = l.def("and i32 ", row & 4 ? a : inverted[0], ", ", row & 2 ? b : inverted[1]);
        V term = l.def("and i32 ", x, ", ", row & 1 ? c : inverted[2]);
        sum = sum.empty() ? term : l.def("or i32 ", sum, ", ", term);
    }
    return sum.empty() ? "0" : sum;
}

void lop3(Lower &l)
{
    V a = l.get(1, kB32), b = l.get(2, kB32), c = l.get(3, kB32);
    if (l.operand(4).kind != Operand::integer) return l.fail("the table must be a constant");
    V r = lookup(l, a, b, c, static_cast<unsigned>(l.operand(4).value));
    std::string_view combine = l.form().starting("and");
    if (combine.empty()) combine = l.form().starting("or");
    if (combine.empty()) return l.set(r, kB32);
    // lop3.BoolOp d|p, a, b, c, table, q: p = (d != 0) BoolOp q
    const Operand &d = l.operand(0);
    if (d.kind != Operand::pair) return l.fail("two destinations are expected");
    V q = l.get(5, kPred), some = l.def("icmp ne i32 ", r, ", 0");
    l.write(l.child(d, 0), r, kB32);
    l.write(l.child(d, 1), l.def(combine, " i1 ", some, ", ", q), kPred);
}

// Shift amounts are clamped, not wrapped.
void shift(Lower &l)
{
    Type t = l.type();
    std::string type = ll(t);
    bool left = l.form().row->opcode == "shl";
    V a = l.get(1, t), n = l.get(2, kU32);
    if (!left && t.is_signed()) {
        n = l.intrinsic("i32", "llvm.umin.i32", {{"i32", n}, {"i32", std::to_string(t.width - 1)}});
        l.set(l.def("ashr ", type, " ", a, ", ", l.resize(n, 32, t.width, false)), t);
        return;
    }
    V inside = l.def("icmp ult i32 ", n, ", ", t.width);
    V r = l.def(left ? "shl " : "lshr ", type, " ", a, ", ", l.resize(n, 32, t.width, false));
    l.set(l.select(inside, t, r, "0"), t);
}

void funnel(Lower &l)
{
    V a = l.get(1, kB32), b = l.get(2, kB32), n = l.get(3, kU32);
    n = l.has("clamp") ? l.intrinsic("i32", "llvm.umin.i32", {{"i32", n}, {"i32", "32"}})
                       : l.def("and i32 ", n, ", 31");
    V wide = l.def("or i64 ", l.def("shl i64 ", l.def("zext i32 ", b, " to i64"), ", 32"), ", ",
                   l.def("zext i32 ", a, " to i64"));
    V by = l.def("zext i32 ", n, " to i64");
    V r = l.has("l") ? l.def("lshr i64 ", l.def("shl i64 ", wide, ", ", by), ", 32")
                     : l.def("lshr i64 ", wide, ", ", by);
    l.set(l.def("trunc i64 ", r, " to i32"), kB32);
}

void prmt(Lower &l)
{
    V a = l.get(1, kB32), b = l.get(2, kB32), s = l.get(3, kB32);
    static constexpr std::string_view modes[] = {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"};
    std::string name = "h.prmt";
    for (std::string_view m : modes)
        if (l.has(m)) name = join("h.prmt.", m);
    l.set(l.helper("i32", name, join("i32 ", a, ", i32 ", b, ", i32 ", s)), kB32);
}

// mov copies, packs {a, b} into one register and unpacks one into several.
void mov(Lower &l)
{
    Type t = l.type();
    const Operand &d = l.operand(0), &a = l.operand(1);
    if (d.kind == Operand::vector && a.kind == Operand::vector) {
        for (unsigned i = 0; i < d.count && i < a.count; ++i)
            l.write(l.child(d, i), l.read(l.child(a, i), t), t);
        return;
    }
    if (d.kind == Operand::reg && l.is_pointer(d)) {
        V p = l.pointer(a);
        bool symbol = a.kind != Operand::reg;
        l.set(symbol ? l.def("ptrtoint ptr ", p, " to i64") : l.read(a, t), t);
        l.write_pointer(d, p);
        return;
    }
    l.set(l.read(a, t), t);
}

void selp(Lower &l)
{
    Type t = l.type();
    V a = l.get(1, t), b = l.get(2, t), p = l.get(3, kPred);
    l.set(l.select(p, t, a, b), t);
    if (l.is_pointer(l.operand(0))) {
        V pa = l.pointer(l.operand(1)), pb = l.pointer(l.operand(2));
        l.write_pointer(l.operand(0), l.def("select i1 ", p, ", ptr ", pa, ", ptr ", pb));
    }
}

void slct(Lower &l)
{
    Type t = l.type(0), s = l.type(1);
    V a = l.get(1, t), b = l.get(2, t), c = l.get(3, s);
    V p = s.kind == Type::flt
              ? l.def("fcmp oge float ",
                      l.has("ftz") ? l.helper("float", "h.ftz", "float " + c) : c, ", 0.0")
              : l.def("icmp sge i32 ", c, ", 0");
    l.set(l.select(p, t, a, b), t);
}

const Row kRows[] = {
    {"and", "pred|$bits", 3, 3, bitwise},
    {"or", "pred|$bits", 3, 3, bitwise},
    {"xor", "pred|$bits", 3, 3, bitwise},
    {"not", "pred|$bits", 2, 2, not_},
    {"cnot", "$bits", 2, 2, cnot},
    {"lop3", "b32", 5, 5, lop3},
    {"lop3", "and|or b32", 6, 6, lop3},
    {"shl", "$bits", 3, 3, shift},
    {"shr", "$bits|$int", 3, 3, shift},
    {"shf", "l|r clamp|wrap b32", 4, 4, funnel},
    {"prmt", "b32 ?f4e|b4e|rc8|ecl|ecr|rc16", 4, 4, prmt},
    {"mov", "$any|pred", 2, 2, mov},
    {"selp", "$any", 4, 4, selp},
    {"slct", "?ftz $any s32|f32", 4, 4, slct},
};

}  // namespace

std::span<const Row> logic_rows() { return kRows; }

}  // namespace rgpu::softgpu::lower
