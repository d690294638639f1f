// Misaligned accesses end a grid with MISALIGNED_ADDRESS. x86 carries them out, so the check need
// not come before the access: the low bits that should be zero are gathered over all of a thread's
// accesses (of a kernel of kind "block": of a block's), and looked at once, at the end. No loop
// gets a branch.
#include "softgpu/lower/alignment.h"

#include <algorithm>
#include <bit>
#include <cstddef>

#include "softgpu/abi.h"
#include "softgpu/lower/memory.h"

namespace rgpu::softgpu::lower {

namespace {

constexpr Congruence kUnknown{true, 0, 0, Congruence::kNoRoot};

Congruence make(unsigned log, uint64_t addend, int32_t root = Congruence::kNoRoot)
{
    log = std::min<unsigned>(log, Congruence::kMost);
    if (!log) return kUnknown;
    return {true, static_cast<uint8_t>(log), static_cast<uint8_t>(addend & ((1u << log) - 1)),
            root};
}

Congruence known(uint64_t value) { return make(Congruence::kMost, value); }

Congruence meet(const Congruence &a, const Congruence &b)
{
    if (!a.seen) return b;
    if (!b.seen) return a;
    if (a.root != b.root) return kUnknown;
    const unsigned differ = a.addend ^ b.addend;
    const unsigned same = differ ? static_cast<unsigned>(std::countr_zero(differ))
                                 : Congruence::kMost;
    return make(std::min<unsigned>({a.log, b.log, same}), a.addend, a.root);
}

Congruence add(const Congruence &a, const Congruence &b)
{
    if (a.root != Congruence::kNoRoot && b.root != Congruence::kNoRoot) return kUnknown;
    return make(std::min(a.log, b.log), uint64_t{a.addend} + b.addend, std::max(a.root, b.root));
}

Congruence subtract(const Congruence &a, const Congruence &b)
{
    if (b.root != Congruence::kNoRoot) return kUnknown;
    return make(std::min(a.log, b.log), uint64_t{a.addend} - b.addend, a.root);
}

Congruence multiply(const Congruence &a, const Congruence &b)
{
    if (a.root != Congruence::kNoRoot || b.root != Congruence::kNoRoot) return kUnknown;
    auto zeros = [](unsigned v) {
        return v ? static_cast<unsigned>(std::countr_zero(v)) : Congruence::kMost;
    };
    return make(
        std::min<unsigned>({a.log + zeros(b.addend), b.log + zeros(a.addend), 0u + a.log + b.log}),
        uint64_t{a.addend} * b.addend);
}

Congruence mask(const Congruence &a, uint64_t m)
{
    unsigned log = 0;
    const unsigned have = a.root == Congruence::kNoRoot ? a.log : 0;
    while (log < Congruence::kMost && (log < have || !(m >> log & 1))) ++log;
    return make(log, a.addend & m);
}

class Congruences {
public:
    Congruences(const Unit &unit, const ptx::Function &f, const ptx::Body &body)
        : unit_(unit), f_(f), body_(body), of_(body.registers.size())
    {}

    // Begins with nothing seen; each pass knows less, and so it ends.
    std::vector<Congruence> find()
    {
        for (bool changed = true; changed;) {
            changed = false;
            for (const ptx::Instruction &in : body_.instructions) {
                if (!in.count) continue;
                const Operand &d = operand(in, 0);
                if (d.kind == Operand::reg) {
                    changed |= write(d, result(in));
                } else {
                    for (unsigned c = 0; c < d.count && d.kind != Operand::address; ++c)
                        changed |= write(body_.children[d.index + c], kUnknown);
                }
            }
        }
        return std::move(of_);
    }

private:
    const Operand &operand(const ptx::Instruction &in, unsigned i) const
    {
        return body_.operands[in.first + i];
    }

    bool write(const Operand &d, const Congruence &value)
    {
        if (d.kind != Operand::reg || !value.seen) return false;
        const Congruence now = meet(of_[d.index], value);
        if (now == of_[d.index]) return false;
        of_[d.index] = now;
        return true;
    }

    Congruence variable(const ptx::Variable &v, uint64_t addend) const
    {
        if (v.space == Space::shared) {
            auto at = unit_.shared.find(v.name);
            return at == unit_.shared.end() ? kUnknown : known(at->second + addend);
        }
        const uint64_t align = v.space == Space::local ? std::max<size_t>(v.align, 8) : v.align;
        return make(static_cast<unsigned>(std::countr_zero(align | 32)), addend);
    }

    Congruence value(const Operand &o) const
    {
        switch (o.kind) {
        case Operand::reg: return of_[o.index];
        case Operand::integer: return known(o.negated ? !o.value : o.value);
        case Operand::variable: return variable(body_.variables[o.index], o.value);
        case Operand::symbol: {
            auto s = unit_.find(o.name);
            bool parameter = std::any_of(f_.parameters.begin(), f_.parameters.end(),
                                         [&](const ptx::Variable &p) { return p.name == o.name; });
            return s.kind == Unit::Symbol::variable && !parameter ? variable(*s.variable_, o.value)
                                                                  : kUnknown;
        }
        default: return kUnknown;
        }
    }

    Congruence parameter(const ptx::Instruction &in) const
    {
        const Operand &a = operand(in, 1);
        if (!f_.kernel || a.kind != Operand::address || !a.count) return kUnknown;
        const Operand &base = body_.children[a.index];
        size_t at = 0;
        for (const ptx::Variable &p : f_.parameters) {
            at = (at + p.align - 1) / p.align * p.align;
            if (base.kind == Operand::symbol && base.name == p.name)
                return make(Congruence::kMost, 0, static_cast<int32_t>(at + a.value + base.value));
            at += p.size;
        }
        return kUnknown;
    }

    Congruence result(const ptx::Instruction &in) const
    {
        const std::string_view op = in.opcode;
        auto get = [&](unsigned i) { return value(operand(in, i)); };
        auto any_unseen = [&](unsigned first, unsigned last) {
            for (unsigned i = first; i <= last; ++i)
                if (!get(i).seen) return true;
            return false;
        };
        if (op.starts_with("ld.param.") && in.count == 2) return parameter(in);
        if ((op.starts_with("mov.") || op.starts_with("cvta.")) && in.count == 2) return get(1);
        if ((op.starts_with("cvt.u64.") || op.starts_with("cvt.s64.") ||
             op.starts_with("cvt.u32.u64")) &&
            op.find(".f") == op.npos && op.find("64.u8") == op.npos && op.find("64.s8") == op.npos)
            return get(1);
        if (in.count == 3) {
            if (any_unseen(1, 2)) return {};
            const bool wide = op.starts_with("mul.wide."), low = op.starts_with("mul.lo.");
            if (op.starts_with("add.s") || op.starts_with("add.u")) return add(get(1), get(2));
            if (op.starts_with("sub.s") || op.starts_with("sub.u")) return subtract(get(1), get(2));
            if (wide || low) return multiply(get(1), get(2));
            const Operand &b = operand(in, 2);
            const bool constant = b.kind == Operand::integer && !b.negated;
            if (op.starts_with("shl.b") && constant)
                return b.value < Congruence::kMost ? multiply(get(1), known(uint64_t{1} << b.value))
                                                   : known(0);
            if (op.starts_with("and.b") && constant) return mask(get(1), b.value);
            if (op.starts_with("or.b")) {
                const Congruence x = get(1), y = get(2);
                if (x.root != Congruence::kNoRoot || y.root != Congruence::kNoRoot) return kUnknown;
                return make(std::min(x.log, y.log), x.addend | y.addend);
            }
        }
        if (in.count == 4 && (op.starts_with("mad.lo.") || op.starts_with("mad.wide."))) {
            if (any_unseen(1, 3)) return {};
            return add(multiply(get(1), get(2)), get(3));
        }
        if (in.count == 4 && op.starts_with("selp.")) return meet(get(1), get(2));
        return kUnknown;
    }

    const Unit &unit_;
    const ptx::Function &f_;
    const ptx::Body &body_;
    std::vector<Congruence> of_;
};

}  // namespace

std::vector<Congruence> find_congruences(const Unit &unit, const ptx::Function &f,
                                         const ptx::Body &body)
{
    return Congruences(unit, f, body).find();
}

// The low bits of the memory operand's address, in 32 bits; nothing where it is known to be
// aligned.
V Lower::low_address(const Operand &o, Space space, unsigned bytes)
{
    const unsigned log = static_cast<unsigned>(std::countr_zero(bytes));
    const auto offset = static_cast<uint32_t>(o.value);
    auto constant = [&](uint32_t v) { return v % bytes ? std::to_string(v % bytes) : V{}; };
    if (!o.count) return constant(offset);
    const Operand &base = child(o, 0);
    V low;
    if (base.kind == Operand::reg) {
        const Congruence &c = congruences_[base.index];
        if (c.seen && c.log >= log) {
            if (c.root == Congruence::kNoRoot) return constant(c.addend + offset);
            V at = parameters();
            V name = join("pl.", std::to_string(c.root));
            V from = entry(join(name, ".at"),
                           join("getelementptr i8, ptr ", at, ", i64 ", std::to_string(c.root)));
            low = entry(name, join("load i32, ptr ", from, ", align 1, !invariant.load !0"));
            return def("add i32 ", low, ", ", std::to_string((c.addend + offset) % bytes));
        }
        const unsigned width = register_type(base).total();
        if (space != Space::shared && pointer_rank_[base.index])
            low = def("ptrtoint ptr ", pointer(base), " to i64");
        else
            low = read(base, Type{Type::bits, static_cast<uint16_t>(width), 1});
        low = resize(low, width, 32, false);
    } else {
        const ptx::Variable *v = variable(base);
        if (!v || v->space == Space::param) return {};
        if (v->space == Space::shared)
            return constant(shared_offset(*v) + static_cast<uint32_t>(base.value) + offset);
        if (v->align >= bytes) return constant(static_cast<uint32_t>(base.value) + offset);
        low = resize(def("ptrtoint ptr ", pointer(base), " to i64"), 64, 32, false);
    }
    return offset ? def("add i32 ", low, ", ", std::to_string(offset)) : low;
}

void Lower::check_alignment(const Operand &o, Space space, unsigned bytes)
{
    if (bytes < 2 || space == Space::param || o.kind != Operand::address ||
        !std::has_single_bit(bytes))
        return;
    V low = low_address(o, space, bytes);
    if (low.empty()) return;
    entry("misaligned", "alloca i32\n  store i32 0, ptr %misaligned");
    V wrong = def("and i32 ", low, ", ", bytes - 1);
    emit("store i32 ", def("or i32 ", def("load i32, ptr %misaligned"), ", ", wrong),
         ", ptr %misaligned");
}

bool touches_memory(const ptx::Body &body)
{
    return std::any_of(
        body.instructions.begin(), body.instructions.end(), [](const ptx::Instruction &in) {
            const std::string_view op = in.opcode;
            if (op.starts_with("ld.param") || op.starts_with("st.param")) return false;
            return op.starts_with("ld") || op.starts_with("st.") || op.starts_with("atom.") ||
                   op.starts_with("red.") || op.starts_with("cp.") || op.starts_with("mbarrier.") ||
                   op.starts_with("stmatrix.");
        });
}

// At a function's ends.
void Lower::report_alignment()
{
    if (!touches_memory_) return;
    entry("misaligned", "alloca i32\n  store i32 0, ptr %misaligned");
    V wrong = def("load i32, ptr %misaligned");
    if (!unit_.per_thread) {
        V at =
            def("getelementptr i8, ptr ", thread(), ", i64 ", std::to_string(sizeof(ThreadState)));
        return emit("store i32 ", def("or i32 ", def("load i32, ptr ", at), ", ", wrong), ", ptr ",
                    at);
    }
    std::string yes = block(), no = block();
    branch(def("icmp ne i32 ", wrong, ", 0"), yes, no);
    place(yes);
    runtime("void", "rt_misaligned", "ptr, i64", "ptr " + block_state() + ", i64 0",
            "noreturn nounwind cold");
    unreachable();
    place_after_terminator(no);
}

}  // namespace rgpu::softgpu::lower
