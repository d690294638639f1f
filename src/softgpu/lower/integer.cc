// SPDX-License-Identifier: Apache-2.0
// Integer arithmetic.
#include "softgpu/lower/lower.h"

namespace rgpu::softgpu::lower {

namespace {

const char *sign(Type t) { return t.is_signed() ? "s" : "u"; }

// add and sub, with .sat, on two lanes, and with the carry flag (.cc writes it).
void add_sub(Lower &l)
{
    Type t = l.type();
    bool sub = l.form().row->opcode == "sub";
    std::string type = ll(t), op = sub ? "sub " : "add ";
    V a = l.get(1, t), b = l.get(2, t);
    if (l.has("sat")) {
        l.set(l.intrinsic(type, join("llvm.s", sub ? "sub" : "add", ".sat.", ll_int(t.total())),
                          {{type, a}, {type, b}}),
              t);
        return;
    }
    V r = l.def(op, type, " ", a, ", ", b);
    if (l.has("cc")) {
        // Carry out; a subtraction is the addition a + ~b + 1, so that its carry says that nothing
        // was borrowed.
        V c = sub ? l.def("icmp uge ", type, " ", a, ", ", b)
                  : l.def("icmp ult ", type, " ", r, ", ", a);
        l.emit("store i1 ", c, ", ptr ", l.carry());
    }
    const Operand &d = l.operand(0);
    if (!l.has("cc") && l.is_pointer(d)) {
        unsigned base = l.pointer_rank(l.operand(1)) >= l.pointer_rank(l.operand(2)) ? 1 : 2;
        V p = l.def("getelementptr i8, ptr ", l.pointer(l.operand(base)), ", i64 ",
                    base == 1 ? b : a);
        l.set(r, t);
        l.write_pointer(d, p);
        return;
    }
    l.set(r, t);
}

void add_sub_carry(Lower &l)
{
    Type t = l.type();
    bool sub = l.form().row->opcode == "subc";
    std::string type = ll(t), op = sub ? "sub " : "add ";
    V a = l.get(1, t), b = l.get(2, t);
    V in = l.def("load i1, ptr ", l.carry());
    if (sub) in = l.def("xor i1 ", in, ", true");
    V c = l.def("zext i1 ", in, " to ", type);
    V r1 = l.def(op, type, " ", a, ", ", b);
    V r = l.def(op, type, " ", r1, ", ", c);
    if (l.has("cc")) {
        V c1 = sub ? l.def("icmp ult ", type, " ", a, ", ", b)
                   : l.def("icmp ult ", type, " ", r1, ", ", a);
        V c2 = sub ? l.def("icmp ult ", type, " ", r1, ", ", c)
                   : l.def("icmp ult ", type, " ", r, ", ", r1);
        V out = l.def("or i1 ", c1, ", ", c2);
        l.emit("store i1 ", sub ? l.def("xor i1 ", out, ", true") : out, ", ptr ", l.carry());
    }
    l.set(r, t);
}

// The .lo, .hi or .wide part of a product; *result gets its type.
V product(Lower &l, Type t, Type *result)
{
    V a = l.get(1, t), b = l.get(2, t);
    *result = t;
    if (l.has("lo")) return l.def("mul ", ll(t), " ", a, ", ", b);
    unsigned w = t.width;
    a = l.resize(a, w, 2 * w, t.is_signed());
    b = l.resize(b, w, 2 * w, t.is_signed());
    V wide = l.def("mul ", ll_int(2 * w), " ", a, ", ", b);
    if (l.has("wide")) {
        *result = with_width(t, 2 * w);
        return wide;
    }
    V high = l.def("lshr ", ll_int(2 * w), " ", wide, ", ", w);
    return l.resize(high, 2 * w, w, false);
}

void mul(Lower &l)
{
    Type r;
    V v = product(l, l.type(), &r);
    l.set(v, r);
}

void mad(Lower &l)
{
    Type r;
    V p = product(l, l.type(), &r);
    V c = l.get(3, r);
    if (l.has("sat")) {
        l.set(l.intrinsic(ll(r), "llvm.sadd.sat." + ll(r), {{ll(r), p}, {ll(r), c}}), r);
        return;
    }
    V sum = l.def("add ", ll(r), " ", p, ", ", c);
    if (l.has("cc"))
        l.emit("store i1 ", l.def("icmp ult ", ll(r), " ", sum, ", ", p), ", ptr ", l.carry());
    l.set(sum, r);
}

void mad_carry(Lower &l)
{
    Type r;
    V p = product(l, l.type(), &r);
    V c = l.get(3, r);
    V in = l.def("zext i1 ", l.def("load i1, ptr ", l.carry()), " to ", ll(r));
    V s1 = l.def("add ", ll(r), " ", p, ", ", c), s = l.def("add ", ll(r), " ", s1, ", ", in);
    if (l.has("cc")) {
        V c1 = l.def("icmp ult ", ll(r), " ", s1, ", ", p),
          c2 = l.def("icmp ult ", ll(r), " ", s, ", ", s1);
        l.emit("store i1 ", l.def("or i1 ", c1, ", ", c2), ", ptr ", l.carry());
    }
    l.set(s, r);
}

// 24-bit operands, 48-bit product: .lo its low 32 bits, .hi bits 16 to 47.
V product24(Lower &l)
{
    Type t = l.type();
    auto narrow = [&](V v) {
        V left = l.def("shl i32 ", v, ", 8");
        V back = l.def(t.is_signed() ? "ashr i32 " : "lshr i32 ", left, ", 8");
        return l.resize(back, 32, 64, t.is_signed());
    };
    V a = narrow(l.get(1, t)), b = narrow(l.get(2, t));
    V p = l.def("mul i64 ", a, ", ", b);
    if (l.has("hi")) p = l.def("lshr i64 ", p, ", 16");
    return l.def("trunc i64 ", p, " to i32");
}

void mul24(Lower &l) { l.set(product24(l), l.type()); }

void mad24(Lower &l)
{
    V p = product24(l), c = l.get(3, l.type());
    if (l.has("sat"))
        l.set(l.intrinsic("i32", "llvm.sadd.sat.i32", {{"i32", p}, {"i32", c}}), l.type());
    else
        l.set(l.def("add i32 ", p, ", ", c), l.type());
}

void sad(Lower &l)
{
    Type t = l.type();
    V a = l.get(1, t), b = l.get(2, t), c = l.get(3, t);
    V less = l.def("icmp ", sign(t), "lt ", ll(t), " ", a, ", ", b);
    V ab = l.def("sub ", ll(t), " ", a, ", ", b), ba = l.def("sub ", ll(t), " ", b, ", ", a);
    l.set(l.def("add ", ll(t), " ", c, ", ", l.select(less, t, ba, ab)), t);
}

// Never traps: x/0 is all ones and x%0 is x, as the hardware gives; INT_MIN/-1 wraps.
void div_rem(Lower &l)
{
    Type t = l.type();
    bool div = l.form().row->opcode == "div";
    std::string type = ll(t);
    V a = l.get(1, t), b = l.get(2, t);
    V zero = l.def("icmp eq ", type, " ", b, ", 0");
    V divisor = l.select(zero, t, "1", b);
    V r;
    if (t.is_signed()) {
        V minus_one = l.def("icmp eq ", type, " ", divisor, ", -1");
        divisor = l.select(minus_one, t, "1", divisor);
        V q = l.def(div ? "sdiv " : "srem ", type, " ", a, ", ", divisor);
        V negated = l.def("sub ", type, " 0, ", a);
        r = l.select(minus_one, t, div ? negated : "0", q);
    } else {
        r = l.def(div ? "udiv " : "urem ", type, " ", a, ", ", divisor);
    }
    l.set(l.select(zero, t, div ? "-1" : a, r), t);
}

void abs_(Lower &l)
{
    Type t = l.type();
    V a = l.get(1, t);
    l.set(l.intrinsic(ll(t), "llvm.abs." + ll(t), {{ll(t), a}, {"i1", "false"}}), t);
}

void neg(Lower &l)
{
    Type t = l.type();
    V a = l.get(1, t);
    l.set(l.def("sub ", ll(t), " 0, ", a), t);
}

void min_max(Lower &l)
{
    Type t = l.type();
    std::string type = ll(t);
    std::string suffix =
        t.lanes > 1 ? join("v", std::to_string(t.lanes), "i", std::to_string(t.width)) : type;
    V a = l.get(1, t), b = l.get(2, t);
    V r = l.intrinsic(type, join("llvm.", sign(t), l.form().row->opcode, ".", suffix),
                      {{type, a}, {type, b}});
    if (l.has("relu"))
        r = l.intrinsic(type, "llvm.smax." + suffix, {{type, r}, {type, "zeroinitializer"}});
    l.set(r, t);
}

// Counts are 32 bits wide whatever is counted.
void count(Lower &l)
{
    Type t = l.type();
    V a = l.get(1, t);
    bool clz = l.form().row->opcode == "clz";
    V n = clz ? l.intrinsic(ll(t), "llvm.ctlz." + ll(t), {{ll(t), a}, {"i1", "false"}})
              : l.intrinsic(ll(t), "llvm.ctpop." + ll(t), {{ll(t), a}});
    l.set(l.resize(n, t.width, 32, false), kU32);
}

void brev(Lower &l)
{
    Type t = l.type();
    V a = l.get(1, t);
    l.set(l.intrinsic(ll(t), "llvm.bitreverse." + ll(t), {{ll(t), a}}), t);
}

// The highest bit that differs from the sign; -1 where none does.
void bfind(Lower &l)
{
    Type t = l.type();
    std::string type = ll(t);
    V a = l.get(1, t);
    if (t.is_signed())
        a = l.def("xor ", type, " ", a, ", ", l.def("ashr ", type, " ", a, ", ", t.width - 1));
    V zeros = l.intrinsic(type, "llvm.ctlz." + type, {{type, a}, {"i1", "false"}});
    V n = l.has("shiftamt") ? zeros : l.def("sub ", type, " ", t.width - 1, ", ", zeros);
    V none = l.def("icmp eq ", type, " ", a, ", 0");
    l.set(l.select(none, kU32, "-1", l.resize(n, t.width, 32, false)), kU32);
}

void fns(Lower &l)
{
    V mask = l.get(1, kU32), base = l.get(2, kU32), offset = l.get(3, kS32);
    l.set(l.helper("i32", "h.fns", join("i32 ", mask, ", i32 ", base, ", i32 ", offset)), kU32);
}

void bfe(Lower &l)
{
    Type t = l.type();
    V a = l.get(1, t), position = l.get(2, kU32), length = l.get(3, kU32);
    V r = l.helper(ll(t), join("h.bfe.", sign(t), std::to_string(t.width)),
                   join(ll(t), " ", a, ", i32 ", position, ", i32 ", length));
    l.set(r, t);
}

void bfi(Lower &l)
{
    Type t = l.type();
    V a = l.get(1, t), b = l.get(2, t), position = l.get(3, kU32), length = l.get(4, kU32);
    V r = l.helper(ll(t), "h.bfi." + std::to_string(t.width),
                   join(ll(t), " ", a, ", ", ll(t), " ", b, ", i32 ", position, ", i32 ", length));
    l.set(r, t);
}

// Sign- or zero-extends from bit n-1: .clamp lets n be 32 at most, .wrap takes it modulo 32.
void szext(Lower &l)
{
    Type t = l.type();
    V a = l.get(1, kB32), n = l.get(2, kU32);
    n = l.has("wrap") ? l.def("and i32 ", n, ", 31")
                      : l.intrinsic("i32", "llvm.umin.i32", {{"i32", n}, {"i32", "32"}});
    l.set(l.helper("i32", join("h.bfe.", sign(t), "32"), join("i32 ", a, ", i32 0, i32 ", n)), t);
}

void bmsk(Lower &l)
{
    V position = l.get(1, kU32), length = l.get(2, kU32);
    if (l.has("wrap")) {
        position = l.def("and i32 ", position, ", 31");
        length = l.def("and i32 ", length, ", 31");
    }
    auto power = [&](const V &n) {
        V wide = l.def("zext i32 ",
                       l.intrinsic("i32", "llvm.umin.i32", {{"i32", n}, {"i32", "32"}}), " to i64");
        return l.def("shl i64 1, ", wide);
    };
    V ones = l.def("sub i64 ", power(length), ", 1");
    V shift = l.def("zext i32 ",
                    l.intrinsic("i32", "llvm.umin.i32", {{"i32", position}, {"i32", "32"}}),
                    " to i64");
    V mask = l.def("shl i64 ", ones, ", ", shift);
    l.set(l.def("trunc i64 ", mask, " to i32"), kB32);
}

// Dot products of four bytes with four bytes (dp4a), of two halves with two bytes (dp2a).
void dot(Lower &l)
{
    Type ta = l.type(0), tb = l.type(1);
    bool four = l.form().row->opcode == "dp4a";
    V a = l.get(1, kB32), b = l.get(2, kB32), sum = l.get(3, kB32);
    auto piece = [&](const V &v, unsigned at, unsigned width, bool sign) {
        V left = l.def("shl i32 ", v, ", ", 32 - at - width);
        return l.def(sign ? "ashr i32 " : "lshr i32 ", left, ", ", 32 - width);
    };
    unsigned n = four ? 4 : 2, skip = l.has("hi") ? 16 : 0;
    for (unsigned i = 0; i < n; ++i) {
        V x = piece(a, four ? 8 * i : 16 * i, four ? 8 : 16, ta.is_signed());
        V y = piece(b, 8 * i + skip, 8, tb.is_signed());
        sum = l.def("add i32 ", sum, ", ", l.def("mul i32 ", x, ", ", y));
    }
    l.set(sum, kB32);
}

const Row kRows[] = {
    {"add", "?sat s32", 3, 3, add_sub},
    {"add", "?cc $int|u16x2|s16x2", 3, 3, add_sub},
    {"sub", "?sat s32", 3, 3, add_sub},
    {"sub", "?cc $int|u16x2|s16x2", 3, 3, add_sub},
    {"addc", "?cc u32|s32|u64|s64", 3, 3, add_sub_carry},
    {"subc", "?cc u32|s32|u64|s64", 3, 3, add_sub_carry},
    {"mul", "lo|hi $int", 3, 3, mul},
    {"mul", "wide u16|s16|u32|s32", 3, 3, mul},
    {"mad", "hi sat s32", 4, 4, mad},
    {"mad", "lo|hi ?cc $int", 4, 4, mad},
    {"mad", "wide u16|s16|u32|s32", 4, 4, mad},
    {"madc", "lo|hi ?cc u32|s32|u64|s64", 4, 4, mad_carry},
    {"mul24", "lo|hi u32|s32", 3, 3, mul24},
    {"mad24", "lo|hi u32|s32", 4, 4, mad24},
    {"mad24", "hi sat s32", 4, 4, mad24},
    {"sad", "$int", 4, 4, sad},
    {"div", "$int", 3, 3, div_rem},
    {"rem", "$int", 3, 3, div_rem},
    {"abs", "s16|s32|s64", 2, 2, abs_},
    {"neg", "s16|s32|s64", 2, 2, neg},
    {"min", "?relu $int|u16x2|s16x2", 3, 3, min_max},
    {"max", "?relu $int|u16x2|s16x2", 3, 3, min_max},
    // The order of the newer forms: .s16x2.relu
    {"min", "s16x2|s32 relu", 3, 3, min_max},
    {"max", "s16x2|s32 relu", 3, 3, min_max},
    {"popc", "b32|b64", 2, 2, count},
    {"clz", "b32|b64", 2, 2, count},
    {"brev", "b32|b64", 2, 2, brev},
    {"bfind", "?shiftamt u32|s32|u64|s64", 2, 2, bfind},
    {"fns", "b32", 4, 4, fns},
    {"bfe", "u32|s32|u64|s64", 4, 4, bfe},
    {"bfi", "b32|b64", 5, 5, bfi},
    {"szext", "clamp|wrap u32|s32", 3, 3, szext},
    {"bmsk", "clamp|wrap b32", 3, 3, bmsk},
    {"dp4a", "u32|s32 u32|s32", 4, 4, dot},
    {"dp2a", "lo|hi u32|s32 u32|s32", 4, 4, dot},
};

}  // namespace

std::span<const Row> integer_rows() { return kRows; }

}  // namespace rgpu::softgpu::lower
