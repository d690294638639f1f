// SPDX-License-Identifier: Apache-2.0
// Operands of instructions: reading and writing registers, constants, names and addresses.
#include <bit>

#include "softgpu/lower/lower.h"
#include "softgpu/ptx/grammar.h"

namespace rgpu::softgpu::lower {

// --- values

V Lower::constant(const Operand &o, Type t)
{
    uint64_t bits = o.value;
    if (o.kind == Operand::float64) {
        double d = std::bit_cast<double>(bits);
        if (t.kind == Type::flt && t.width == 32)
            bits = std::bit_cast<uint32_t>(static_cast<float>(d));
    } else if (o.kind == Operand::float32 && t.kind == Type::flt && t.width == 64) {
        bits = std::bit_cast<uint64_t>(
            static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits))));
    }
    if (t.kind == Type::pred) return bits ? "true" : "false";
    unsigned width = t.total();
    if (width < 64) bits &= (uint64_t{1} << width) - 1;
    std::string integer = std::to_string(bits);
    if (width > 64 && static_cast<int64_t>(bits) < 0)
        integer = std::to_string(static_cast<int64_t>(bits));
    std::string type = ll(t), as_int = ll_int(width);
    if (type == as_int) return integer;
    return "bitcast (" + as_int + " " + integer + " to " + type + ")";
}

V Lower::read_register(const Operand &o, Type t)
{
    Type r = body_.registers[o.index].type;
    std::string stored = storage_type(r);
    V v = def("load ", stored, ", ptr %r", o.index);
    if (r.kind == Type::pred || t.kind == Type::pred) {
        if (r.kind != t.kind) {
            fail("a predicate where a value is expected, or the other way round");
            return v;
        }
        return o.negated ? def("xor i1 ", v, ", true") : v;
    }
    unsigned from = r.total(), to = t.total();
    if (from != to) {
        v = cast(v, stored, ll_int(from));
        v = resize(v, from, to, t.is_signed());
        stored = ll_int(to);
    }
    return cast(v, stored, ll(t));
}

V Lower::read(const Operand &o, Type t)
{
    switch (o.kind) {
    case Operand::reg: return read_register(o, t);
    case Operand::integer:
    case Operand::float32:
    case Operand::float64:
        if (o.negated) {
            Operand flipped = o;
            flipped.value = !o.value;
            return constant(flipped, t);
        }
        return constant(o, t);
    case Operand::special: return special(o, t);
    case Operand::symbol:
    case Operand::variable:
        return cast(resize(symbol_value(o), 64, t.total(), false), ll_int(t.total()), ll(t));
    case Operand::vector: {
        // {a, b} as one value, a lowest.
        if (o.count == 0) break;
        unsigned width = t.total() / o.count;
        V all;
        for (unsigned i = 0; i < o.count; ++i) {
            V part = resize(read(child(o, i), Type{Type::bits, static_cast<uint16_t>(width), 1}),
                            width, t.total(), false);
            if (i) part = def("shl ", ll_int(t.total()), " ", part, ", ", i * width);
            all = i ? def("or ", ll_int(t.total()), " ", all, ", ", part) : part;
        }
        return cast(all, ll_int(t.total()), ll(t));
    }
    default: break;
    }
    fail("an operand that this instruction cannot read");
    return "zeroinitializer";
}

void Lower::write(const Operand &o, const V &value, Type t)
{
    if (o.kind == Operand::sink) return;
    if (o.kind == Operand::vector && o.count) {
        unsigned total = t.total(), width = total / o.count;
        V bits = cast(value, ll(t), ll_int(total));
        for (unsigned i = 0; i < o.count; ++i) {
            if (child(o, i).kind == Operand::sink) continue;
            V part = i ? def("lshr ", ll_int(total), " ", bits, ", ", i * width) : bits;
            write(child(o, i), resize(part, total, width, false),
                  Type{Type::bits, static_cast<uint16_t>(width), 1});
        }
        return;
    }
    if (o.kind != Operand::reg) return fail("the destination is no register");
    Type r = body_.registers[o.index].type;
    if ((r.kind == Type::pred) != (t.kind == Type::pred))
        return fail("a predicate and a value do not mix");
    V v = value;
    std::string have = ll(t), stored = storage_type(r);
    if (r.total() != t.total()) {
        v = cast(v, have, ll_int(t.total()));
        v = resize(v, t.total(), r.total(), t.is_signed());
        have = ll_int(r.total());
    }
    emit("store ", stored, " ", cast(v, have, stored), ", ptr %r", o.index);
}

// --- addresses

const ptx::Variable *Lower::variable(const Operand &o) const
{
    if (o.kind == Operand::variable) return &body_.variables[o.index];
    if (o.kind != Operand::symbol) return nullptr;
    for (auto *list : {&function_.parameters, &function_.returns})
        for (const ptx::Variable &p : *list)
            if (p.name == o.name) return &p;
    auto s = unit_.find(o.name);
    return s.kind == Unit::Symbol::variable ? s.variable_ : nullptr;
}

bool Lower::is_parameter(const Operand &o) const
{
    if (o.kind != Operand::symbol || !function_.kernel) return false;
    for (const ptx::Variable &p : function_.parameters)
        if (p.name == o.name) return true;
    return false;
}

uint32_t Lower::shared_offset(const ptx::Variable &v)
{
    auto found = unit_.shared.find(v.name);
    if (found != unit_.shared.end()) return found->second;
    fail("shared variable " + std::string(v.name) + " has no place");
    return 0;
}

// The value of a symbol in an expression: an address; of shared variables the offset.
V Lower::symbol_value(const Operand &o)
{
    if (o.kind == Operand::symbol) {
        auto s = unit_.find(o.name);
        if (s.kind == Unit::Symbol::function && !variable(o)) {
            return std::to_string(ptx::function_address(s.function_->name) + o.value);
        }
    }
    const ptx::Variable *v = variable(o);
    if (!v) {
        fail("unknown name " + std::string(o.name));
        return "0";
    }
    if (v->space == Space::shared) return std::to_string(shared_offset(*v) + o.value);
    return def("ptrtoint ptr ", pointer(o), " to i64");
}

bool Lower::is_pointer(const Operand &o) const { return pointer_rank(o) > 0; }

unsigned Lower::pointer_rank(const Operand &o) const
{
    if (o.kind == Operand::reg) return pointer_rank_[o.index];
    const ptx::Variable *v = variable(o);
    return v && v->space != Space::shared ? 2 : 0;
}

V Lower::pointer(const Operand &o)
{
    if (o.kind == Operand::reg) {
        if (pointer_rank_[o.index]) return def("load ptr, ptr %p", o.index);
        V bits = read(o, kB64);
        return def("inttoptr i64 ", bits, " to ptr");
    }
    const ptx::Variable *v = variable(o);
    if (!v) return def("inttoptr i64 ", read(o, kB64), " to ptr");
    V base;
    int64_t offset = static_cast<int64_t>(o.value);
    if (v->space == Space::shared) {
        base = shared_base();
        offset += shared_offset(*v);
    } else if (o.kind == Operand::variable && v->space != Space::global &&
               v->space != Space::constant) {
        base = variable_slot(o.index);
    } else if (v->space == Space::param) {
        for (size_t n = 0; n < function_.parameters.size() && base.empty(); ++n) {
            if (function_.parameters[n].name != v->name) continue;
            base = function_.kernel ? parameters() : "%a" + std::to_string(n);
            if (function_.kernel) offset += static_cast<int64_t>(function_.parameters[n].offset);
        }
        for (size_t n = 0; base.empty() && n < function_.returns.size(); ++n)
            if (function_.returns[n].name == v->name) base = "%o" + std::to_string(n);
    } else {
        unit_.globals.emplace(v->name);
        base = join("@\"g.", v->name, "\"");
    }
    if (offset == 0) return base;
    return def("getelementptr i8, ptr ", base, ", i64 ", std::to_string(offset));
}

void Lower::write_pointer(const Operand &o, const V &p)
{
    if (o.kind == Operand::reg && pointer_rank_[o.index])
        emit("store ptr ", p, ", ptr %p", o.index);
}

V Lower::address(const Operand &o, Space space)
{
    if (o.kind != Operand::address) {
        fail("a memory operand is expected");
        return "null";
    }
    auto offset = std::to_string(static_cast<int64_t>(o.value));
    if (o.count == 0) {
        if (space == Space::shared)
            return def("getelementptr i8, ptr ", shared_base(), ", i64 ", offset);
        return def("inttoptr i64 ", offset, " to ptr");
    }
    const Operand &base = child(o, 0);
    if (base.kind != Operand::reg) return pointer(base);
    V p;
    if (space == Space::shared) {
        unsigned width = register_type(base).total();
        V at =
            resize(read(base, Type{Type::bits, static_cast<uint16_t>(width), 1}), width, 64, false);
        p = def("getelementptr i8, ptr ", shared_base(), ", i64 ", at);
    } else if (register_type(base).total() == 32) {
        p = def("inttoptr i64 ", read(base, kB64), " to ptr");
    } else {
        p = pointer(base);
    }
    if (o.value == 0) return p;
    return def("getelementptr i8, ptr ", p, ", i64 ", offset);
}

}  // namespace rgpu::softgpu::lower
