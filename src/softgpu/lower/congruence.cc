// SPDX-License-Identifier: Apache-2.0
#include "softgpu/lower/congruence.h"

#include <algorithm>
#include <bit>

namespace rgpu::softgpu::lower {

using ptx::Operand;
using ptx::Space;

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
        for (const ptx::Variable &p : f_.parameters)
            if (base.kind == Operand::symbol && base.name == p.name)
                return make(Congruence::kMost, 0,
                            static_cast<int32_t>(p.offset + a.value + base.value));
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

}  // namespace rgpu::softgpu::lower
