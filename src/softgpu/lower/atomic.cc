// SPDX-License-Identifier: Apache-2.0
// Atomic operations: atom and red.
#include <functional>

#include "softgpu/lower/arith.h"
#include "softgpu/lower/memory.h"

namespace rgpu::softgpu::lower {

namespace {

struct Access {
    V pointer;
    bool shared = false;  // one OS thread runs a block, so a plain update is atomic there
    std::string order;
};

Type atomic_type(const Lower &l) { return l.form().types[l.form().type_count - 1]; }

// Updates memory by a function of the old value, given as an integer; returns the old one.
V update(Lower &l, const Access &a, unsigned width, const std::function<V(const V &)> &compute)
{
    std::string type = ll_int(width), align = ", align " + std::to_string(width / 8);
    if (a.shared) {
        V old = l.def("load ", type, ", ptr ", a.pointer, align);
        l.emit("store ", type, " ", compute(old), ", ptr ", a.pointer, align);
        return old;
    }
    V kept = l.slot(type);
    V first = l.def("load atomic ", type, ", ptr ", a.pointer, " monotonic", align);
    l.emit("store ", type, " ", first, ", ptr ", kept);
    std::string again = l.block(), done = l.block();
    l.place(again);
    V old = l.def("load ", type, ", ptr ", kept);
    V pair = l.def("cmpxchg weak ptr ", a.pointer, ", ", type, " ", old, ", ", type, " ",
                   compute(old), " ", a.order, " monotonic", align);
    l.emit("store ", type, " ", l.def("extractvalue { ", type, ", i1 } ", pair, ", 0"), ", ptr ",
           kept);
    l.branch(l.def("extractvalue { ", type, ", i1 } ", pair, ", 1"), done, again);
    l.place(done);
    return l.def("load ", type, ", ptr ", kept);
}

V rmw(Lower &l, const Access &a, const char *op, const std::string &type, unsigned width,
      const V &value)
{
    return l.def("atomicrmw ", op, " ptr ", a.pointer, ", ", type, " ", value, " ", a.order,
                 ", align ", width / 8);
}

// The new value, from the old one and the operand; integers.
V integer_result(Lower &l, std::string_view op, Type t, const V &old, const V &b)
{
    std::string type = ll_int(t.width);
    if (op == "exch") return b;
    if (op == "min" || op == "max")
        return l.intrinsic(type, join("llvm.", t.is_signed() ? "s" : "u", op, ".", type),
                           {{type, old}, {type, b}});
    if (op == "inc") {
        V wrap = l.def("icmp uge i32 ", old, ", ", b);
        return l.select(wrap, kB32, "0", l.def("add i32 ", old, ", 1"));
    }
    if (op == "dec") {
        V wrap = l.def("or i1 ", l.def("icmp eq i32 ", old, ", 0"), ", ",
                       l.def("icmp ugt i32 ", old, ", ", b));
        return l.select(wrap, kB32, b, l.def("sub i32 ", old, ", 1"));
    }
    return l.def(op, " ", type, " ", old, ", ", b);
}

V half_result(Lower &l, std::string_view op, Type t, const V &old, const V &b)
{
    std::vector<V> lanes;
    V as_old = l.cast(old, ll_int(t.total()), ll(t));
    for (unsigned i = 0; i < t.lanes; ++i) {
        V x = half_to_float(l, t, half_lane(l, t, as_old, i)),
          y = half_to_float(l, t, half_lane(l, t, b, i));
        V r = op == "add" ? l.def("fadd float ", x, ", ", y)
                          : float_min_max(l, "float", "f32", op == "min", false, x, y);
        lanes.push_back(float_to_half(l, t, r));
    }
    return l.cast(half_join(l, t, lanes), ll(t), ll_int(t.total()));
}

std::string_view operation(const Lower &l)
{
    for (std::string_view op :
         {"add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas"})
        if (l.has(op)) return op;
    return {};
}

// The old value, as an integer.
V apply(Lower &l, const Access &a, std::string_view op, Type t, const V &b)
{
    unsigned width = t.total();
    std::string type = ll_int(width);
    if (t.kind == Type::bf || (t.kind == Type::flt && t.width == 16))
        return update(l, a, width, [&](const V &old) { return half_result(l, op, t, old, b); });
    if (t.kind == Type::flt) {
        if (!a.shared && op == "add")
            return l.cast(rmw(l, a, "fadd", ll(t), width, b), ll(t), type);
        return update(l, a, width, [&](const V &old) {
            V x = l.cast(old, type, ll(t));
            V r = op == "add" ? l.def("fadd ", ll(t), " ", x, ", ", b)
                              : float_min_max(l, ll(t), float_suffix(t), op == "min", false, x, b);
            return l.cast(r, ll(t), type);
        });
    }
    bool single = op != "inc" && op != "dec" && width <= 64;
    if (a.shared || !single)
        return update(l, a, width, [&](const V &old) { return integer_result(l, op, t, old, b); });
    std::string name(op == "exch" ? "xchg" : op);
    if (op == "min" || op == "max") name = (t.is_signed() ? "" : "u") + name;
    return rmw(l, a, name.c_str(), type, width, b);
}

Access access(Lower &l, const Operand &address)
{
    Space space = space_of(l);
    unsigned elements = l.has("v2") ? 2 : l.has("v4") ? 4 : l.has("v8") ? 8 : 1;
    l.check_alignment(address, space, elements * atomic_type(l).total() / 8);
    return {l.address(address, space), space == Space::shared, ordering(l, true, true)};
}

void atom(Lower &l)
{
    Type t = atomic_type(l);
    Access a = access(l, l.operand(1));
    if (l.has("v2") || l.has("v4") || l.has("v8")) {
        const Operand &d = l.operand(0), &s = l.operand(2);
        for (unsigned i = 0; i < s.count; ++i) {
            Access part = a;
            if (i)
                part.pointer = l.def("getelementptr i8, ptr ", a.pointer, ", i64 ", i * t.bytes());
            V old = apply(l, part, operation(l), t, l.read(l.child(s, i), t));
            if (d.kind == Operand::vector)
                l.write(l.child(d, i), l.cast(old, ll_int(t.total()), ll(t)), t);
        }
        return;
    }
    V b = l.get(2, t);
    V old = apply(l, a, operation(l), t, b);
    l.set(l.cast(old, ll_int(t.total()), ll(t)), t);
    l.yield();
}

void cas(Lower &l)
{
    Type t = atomic_type(l);
    std::string type = ll_int(t.total()), align = ", align " + std::to_string(t.bytes());
    Access a = access(l, l.operand(1));
    V expected = l.get(2, t), desired = l.get(3, t);
    V old;
    if (a.shared) {
        old = l.def("load ", type, ", ptr ", a.pointer, align);
        V same = l.def("icmp eq ", type, " ", old, ", ", expected);
        l.emit("store ", type, " ", l.select(same, bits_of(t), desired, old), ", ptr ", a.pointer,
               align);
    } else {
        std::string failure = a.order == "acquire" || a.order == "acq_rel" ? "acquire"
                                                                           : "monotonic";
        V pair = l.def("cmpxchg ptr ", a.pointer, ", ", type, " ", expected, ", ", type, " ",
                       desired, " ", a.order, " ", failure, align);
        old = l.def("extractvalue { ", type, ", i1 } ", pair, ", 0");
    }
    l.set(old, bits_of(t));
    l.yield();
}

void red(Lower &l)
{
    Type t = atomic_type(l);
    Access a = access(l, l.operand(0));
    const Operand &s = l.operand(1);
    if (s.kind != Operand::vector) {
        apply(l, a, operation(l), t, l.get(1, t));
        return;
    }
    for (unsigned i = 0; i < s.count; ++i) {
        Access part = a;
        if (i) part.pointer = l.def("getelementptr i8, ptr ", a.pointer, ", i64 ", i * t.bytes());
        apply(l, part, operation(l), t, l.read(l.child(s, i), t));
    }
}

#define WHERE "~?$order ?$scope ?global|shared|shared::cta|shared::cluster "

const Row kRows[] = {
    {"atom", WHERE "add ?noftz ?L2::cache_hint u32|s32|u64|s64|f32|f64|f16|f16x2|bf16|bf16x2", 3, 4,
     atom, kSpins | kIfUsed},
    {"atom", WHERE "min|max ?noftz ?L2::cache_hint u32|s32|u64|s64|f16|f16x2|bf16|bf16x2", 3, 4,
     atom, kSpins | kIfUsed},
    {"atom", WHERE "inc|dec ?L2::cache_hint u32", 3, 4, atom, kSpins | kIfUsed},
    {"atom", WHERE "and|or|xor ?L2::cache_hint b32|b64", 3, 4, atom, kSpins | kIfUsed},
    {"atom", WHERE "exch ?L2::cache_hint b32|b64|b128", 3, 4, atom, kSpins},
    {"atom", WHERE "cas ?L2::cache_hint b16|b32|b64|b128", 4, 5, cas, kSpins},
    {"atom", WHERE "add ?noftz ?L2::cache_hint v2|v4|v8 f32|f16|f16x2|bf16|bf16x2", 3, 4, atom,
     kSpins | kIfUsed},
    {"atom", WHERE "min|max ?noftz ?L2::cache_hint v2|v4|v8 f16|f16x2|bf16|bf16x2", 3, 4, atom,
     kSpins | kIfUsed},
    {"red", WHERE "add ?noftz ?L2::cache_hint u32|s32|u64|s64|f32|f64|f16|f16x2|bf16|bf16x2", 2, 3,
     red},
    {"red", WHERE "min|max ?noftz ?L2::cache_hint u32|s32|u64|s64|f16|f16x2|bf16|bf16x2", 2, 3,
     red},
    {"red", WHERE "inc|dec ?L2::cache_hint u32", 2, 3, red},
    {"red", WHERE "and|or|xor ?L2::cache_hint b32|b64", 2, 3, red},
    {"red", WHERE "add ?noftz ?L2::cache_hint v2|v4|v8 f32|f16|f16x2|bf16|bf16x2", 2, 3, red},
    {"red", WHERE "min|max ?noftz ?L2::cache_hint v2|v4|v8 f16|f16x2|bf16|bf16x2", 2, 3, red},
};

}  // namespace

std::span<const Row> atomic_rows() { return kRows; }

}  // namespace rgpu::softgpu::lower
