// SPDX-License-Identifier: Apache-2.0
// Video instructions: integer operations on bytes and halves of registers, one (vadd) or all at a
// time (vadd4).
//
// An operand's selector is what the parser made of "%r1.b2": a letter, how many digits, and the
// digits.
#include "softgpu/lower/lower.h"

namespace rgpu::softgpu::lower {

namespace {

struct Selector {
    explicit Selector(const Operand &o)
        : letter(o.kind == Operand::reg ? static_cast<char>(o.value >> 32) : 0),
          count(letter ? static_cast<unsigned>(o.value >> 24 & 255) : 0),
          digits(static_cast<uint32_t>(o.value & 0xFFFFFF))
    {}
    const char letter;  // 'b', 'h', or 0: all of it
    const unsigned count;
    const uint32_t digits;
    unsigned width() const { return letter == 'b' ? 8 : letter == 'h' ? 16 : 32; }
    // The i-th digit from the right.
    unsigned digit(unsigned i) const { return digits >> 4 * i & 15; }
    unsigned first_bit() const { return letter ? digit(0) * width() : 0; }
};

// Bits of a 32-bit value, extended to `to` bits.
V extract(Lower &l, const V &v, unsigned at, unsigned width, bool is_signed, unsigned to)
{
    V left = l.def("shl i32 ", v, ", ", 32 - at - width);
    return l.resize(l.def(is_signed ? "ashr i32 " : "lshr i32 ", left, ", ", 32 - width), 32, to,
                    is_signed);
}

V wide(Lower &l, unsigned operand, Type t)
{
    const Selector s(l.operand(operand));
    return extract(l, l.get(operand, kB32), s.first_bit(), s.width(), t.is_signed(), 128);
}

V minimum(Lower &l, const V &a, const V &b)
{
    return l.intrinsic("i128", "llvm.smin.i128", {{"i128", a}, {"i128", b}});
}
V maximum(Lower &l, const V &a, const V &b)
{
    return l.intrinsic("i128", "llvm.smax.i128", {{"i128", a}, {"i128", b}});
}

V saturate(Lower &l, const V &v, bool is_signed, unsigned width)
{
    const int64_t high = (int64_t{1} << (width - is_signed)) - 1, low = is_signed ? -high - 1 : 0;
    return maximum(l, minimum(l, v, std::to_string(high)), std::to_string(low));
}

V condition(Lower &l, const V &a, const V &b, const std::string &type)
{
    std::string_view how = l.has("eq")   ? "eq"
                           : l.has("ne") ? "ne"
                           : l.has("lt") ? "slt"
                           : l.has("le") ? "sle"
                           : l.has("gt") ? "sgt"
                                         : "sge";
    return l.def("zext i1 ", l.def("icmp ", how, " ", type, " ", a, ", ", b), " to ", type);
}

// What follows the operation: saturation, a second operation with c, or taking its place in c.
void finish(Lower &l, V r, Type d)
{
    const Selector place(l.operand(0));
    if (l.has("sat")) r = saturate(l, r, d.is_signed(), place.width());
    if (l.operands() < 4) return l.set(l.resize(r, 128, 32, false), kB32);
    V c = l.get(3, kB32), narrow = l.resize(r, 128, 32, false);
    if (l.has("add")) return l.set(l.def("add i32 ", narrow, ", ", c), kB32);
    if (l.has("min") || l.has("max")) {
        std::string name =
            join("llvm.", d.is_signed() ? "s" : "u", l.has("min") ? "min" : "max", ".i32");
        return l.set(l.intrinsic("i32", name, {{"i32", narrow}, {"i32", c}}), kB32);
    }
    if (!place.letter)
        return l.fail(
            "what becomes of the last operand? neither a second operation nor a place is named");
    const uint32_t mask = ((uint32_t{1} << place.width()) - 1) << place.first_bit();
    V moved = l.def("and i32 ", l.def("shl i32 ", narrow, ", ", place.first_bit()), ", ",
                    std::to_string(mask));
    l.set(l.def("or i32 ", moved, ", ", l.def("and i32 ", c, ", ", std::to_string(~mask))), kB32);
}

void scalar(Lower &l)
{
    const Type d = l.type(0), ta = l.type(1), tb = l.type(2);
    const std::string_view op = l.form().row->opcode.substr(1);
    V a = wide(l, 1, ta), b = wide(l, 2, tb), r;
    if (op == "min")
        r = minimum(l, a, b);
    else if (op == "max")
        r = maximum(l, a, b);
    else
        r = l.def(op == "add" ? "add" : "sub", " i128 ", a, ", ", b);
    if (op == "absdiff") r = l.intrinsic("i128", "llvm.abs.i128", {{"i128", r}, {"i1", "false"}});
    finish(l, r, d);
}

void shift(Lower &l)
{
    const Type d = l.type(0), ta = l.type(1);
    V a = wide(l, 1, ta), n = wide(l, 2, kU32);
    n = l.has("wrap") ? l.def("and i128 ", n, ", 31") : minimum(l, n, "32");
    finish(l, l.def(l.form().row->opcode == "vshl" ? "shl" : "ashr", " i128 ", a, ", ", n), d);
}

void multiply_add(Lower &l)
{
    const Type ta = l.type(1), tb = l.type(2);
    // What a minus makes of a product or of c is signed; c is as the product is.
    const bool minus_product = l.operand(1).minus != l.operand(2).minus,
               minus_c = l.operand(3).minus;
    const bool signed_product = ta.is_signed() || tb.is_signed() || minus_product,
               is_signed = signed_product || minus_c;
    V product = l.def("mul i128 ", wide(l, 1, ta), ", ", wide(l, 2, tb));
    V c = l.resize(l.get(3, kB32), 32, 128, signed_product);
    V r = minus_product ? l.def("sub i128 ", c, ", ", product)
          : minus_c     ? l.def("sub i128 ", product, ", ", c)
                        : l.def("add i128 ", product, ", ", c);
    if (l.has("po")) r = l.def("add i128 ", r, ", 1");
    const unsigned by = l.has("shr7") ? 7 : l.has("shr15") ? 15 : 0;
    if (by) r = l.def("ashr i128 ", r, ", ", by);
    if (l.has("sat")) r = saturate(l, r, is_signed, 32);
    l.set(l.resize(r, 128, 32, false), kB32);
}

void set(Lower &l)
{
    finish(l, condition(l, wide(l, 1, l.type(0)), wide(l, 2, l.type(1)), "i128"), kU32);
}

// Each lane of a with its lane of b; .add sums the results and c, else lanes that are not asked for
// are c's.
void lanes(Lower &l)
{
    std::string_view name = l.form().row->opcode;
    const unsigned n = static_cast<unsigned>(name.back() - '0'), width = 32 / n;
    const std::string_view op = name.substr(1, name.size() - 2);
    const bool compares = op == "set";
    const Type d = compares ? kU32 : l.type(0), ta = l.type(compares ? 0 : 1),
               tb = l.type(compares ? 1 : 2);
    const V sources[] = {l.get(1, kB32), l.get(2, kB32)};
    const V c = l.get(3, kB32);
    const Selector place(l.operand(0)), as(l.operand(1)), bs(l.operand(2));
    uint32_t wanted = place.letter ? 0 : (1u << n) - 1;
    for (unsigned i = 0; i < place.count; ++i) wanted |= 1u << place.digit(i);
    // Lanes are counted through a and on through b.
    auto lane = [&](const Selector &s, unsigned i, unsigned usual, bool is_signed) {
        const unsigned from = s.letter ? s.digit(i) : usual + i;
        return extract(l, sources[from / n % 2], from % n * width, width, is_signed, 32);
    };
    V result = l.has("add") ? c : "0";
    for (unsigned i = 0; i < n; ++i) {
        V r;
        if (wanted >> i & 1) {
            V x = lane(as, i, 0, ta.is_signed()), y = lane(bs, i, n, tb.is_signed());
            if (compares) {
                r = condition(l, x, y, "i32");
            } else if (op == "add" || op == "sub") {
                r = l.def(op, " i32 ", x, ", ", y);
            } else if (op == "absdiff") {
                r = l.intrinsic("i32", "llvm.abs.i32",
                                {{"i32", l.def("sub i32 ", x, ", ", y)}, {"i1", "false"}});
            } else if (op == "avrg") {
                // Rounded away from zero.
                V sum = l.def("add i32 ", x, ", ", y), odd = l.def("add i32 ", sum, ", 1");
                V negative = l.def("icmp slt i32 ", sum, ", 0");
                r = l.def("ashr i32 ", l.select(negative, kB32, sum, odd), ", 1");
            } else {
                r = l.intrinsic("i32", join("llvm.s", op, ".i32"), {{"i32", x}, {"i32", y}});
            }
            if (l.has("sat")) {
                int64_t high = (int64_t{1} << (width - (d.is_signed() ? 1 : 0))) - 1,
                        low = d.is_signed() ? -high - 1 : 0;
                r = l.intrinsic("i32", "llvm.smin.i32",
                                {{"i32", r}, {"i32", std::to_string(high)}});
                r = l.intrinsic("i32", "llvm.smax.i32", {{"i32", r}, {"i32", std::to_string(low)}});
            }
        } else if (l.has("add")) {
            continue;
        } else {
            r = extract(l, c, i * width, width, false, 32);
        }
        if (l.has("add")) {
            result = l.def("add i32 ", result, ", ", r);
            continue;
        }
        V kept = l.def("and i32 ", r, ", ", (1u << width) - 1);
        result = l.def("or i32 ", result, ", ", l.def("shl i32 ", kept, ", ", width * i));
    }
    l.set(result, kB32);
}

#define TYPES "u32|s32 u32|s32 u32|s32 "
#define SECOND "?add|min|max"
#define COMPARE "u32|s32 u32|s32 eq|ne|lt|le|gt|ge "

const Row kRows[] = {
    {"vadd", TYPES "?sat " SECOND, 3, 4, scalar},
    {"vsub", TYPES "?sat " SECOND, 3, 4, scalar},
    {"vabsdiff", TYPES "?sat " SECOND, 3, 4, scalar},
    {"vmin", TYPES "?sat " SECOND, 3, 4, scalar},
    {"vmax", TYPES "?sat " SECOND, 3, 4, scalar},
    {"vshl", "u32|s32 u32|s32 u32 ?sat clamp|wrap " SECOND, 3, 4, shift},
    {"vshr", "u32|s32 u32|s32 u32 ?sat clamp|wrap " SECOND, 3, 4, shift},
    {"vmad", TYPES "?po ?sat ?shr7|shr15", 4, 4, multiply_add, kMinus},
    {"vset", COMPARE SECOND, 3, 4, set},
    {"vset2", COMPARE "?add", 4, 4, lanes},
    {"vset4", COMPARE "?add", 4, 4, lanes},
    {"vadd2", TYPES "?sat|add", 4, 4, lanes},
    {"vadd4", TYPES "?sat|add", 4, 4, lanes},
    {"vsub2", TYPES "?sat|add", 4, 4, lanes},
    {"vsub4", TYPES "?sat|add", 4, 4, lanes},
    {"vavrg2", TYPES "?sat|add", 4, 4, lanes},
    {"vavrg4", TYPES "?sat|add", 4, 4, lanes},
    {"vabsdiff2", TYPES "?sat|add", 4, 4, lanes},
    {"vabsdiff4", TYPES "?sat|add", 4, 4, lanes},
    {"vmin2", TYPES "?sat|add", 4, 4, lanes},
    {"vmin4", TYPES "?sat|add", 4, 4, lanes},
    {"vmax2", TYPES "?sat|add", 4, 4, lanes},
    {"vmax4", TYPES "?sat|add", 4, 4, lanes},
};

}  // namespace

std::span<const Row> video_rows() { return kRows; }

}  // namespace rgpu::softgpu::lower
