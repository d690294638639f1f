// SPDX-License-Identifier: Apache-2.0
#include "softgpu/lower/address.h"

#include <algorithm>
#include <cstdlib>

namespace rgpu::softgpu::lower {

using ptx::Operand;

bool Address::add(const Address &o, int64_t times)
{
    if (!o.variable.empty()) {
        if (!variable.empty() || times != 1) return false;
        variable = o.variable;
    }
    for (size_t i = 0; i < tid.size(); ++i) tid[i] += times * o.tid[i];
    for (const Term &t : o.terms) add(t.reg, times * t.times);
    constant += times * o.constant;
    return terms.size() <= 6;
}

void Address::add(uint32_t reg, int64_t times)
{
    auto at = std::lower_bound(terms.begin(), terms.end(), reg,
                               [](const Term &t, uint32_t r) { return t.reg < r; });
    if (at == terms.end() || at->reg != reg)
        terms.insert(at, {reg, times});
    else if (!(at->times += times))
        terms.erase(at);
}

bool Address::is_constant() const
{
    return variable.empty() && terms.empty() && tid == std::array<int64_t, 3>{};
}

Sums::Sums(const ptx::Body &body, const std::vector<Access> &accesses)
    : body_(body), accesses_(accesses), maker_(body.registers.size(), kNever),
      sums_(body.registers.size()), state_(body.registers.size(), 0)
{
    for (uint32_t i = 0; i < accesses.size(); ++i)
        for (uint32_t r : accesses[i].writes)
            maker_[r] = maker_[r] == kNever && accesses[i].certain ? i : kMany;
    find_runs();
}

void Sums::find_runs()
{
    const auto n = static_cast<uint32_t>(body_.instructions.size());
    std::vector<uint8_t> begins(n + 1, 0);
    for (const ptx::Label &l : body_.labels) begins[std::min(l.instruction, n)] = 1;
    run_.resize(n);
    for (uint32_t i = 0, run = 0; i < n; ++i) {
        run += begins[i];
        run_[i] = run;
        if (body_.instructions[i].opcode.starts_with("br")) ++run;
    }
}

bool Sums::written_between(uint32_t reg, uint32_t from, uint32_t to) const
{
    for (uint32_t i = from + 1; i < to; ++i) {
        const std::vector<uint32_t> &w = accesses_[i].writes;
        if (std::find(w.begin(), w.end(), reg) != w.end()) return true;
    }
    return false;
}

Address Sums::of(const Operand &o, uint32_t instruction)
{
    Address a;
    a.constant = static_cast<int64_t>(o.value);
    if (!o.count) return a;
    const Operand &base = body_.children[o.index];
    if (a.add(of_value(base, instruction), 1)) return a;
    a = {};
    a.constant = static_cast<int64_t>(o.value);
    if (base.kind == Operand::reg) a.add(base.index, 1);
    return a;
}

Address Sums::of_value(const Operand &o, uint32_t instruction)
{
    steps_ = 0;
    return of_operand(o, instruction);
}

Address Sums::of_operand(const Operand &o, uint32_t at)
{
    Address a;
    switch (o.kind) {
    case Operand::reg: return of_register(o.index, at);
    case Operand::integer: a.constant = static_cast<int64_t>(o.value); break;
    case Operand::symbol:
        a.variable = o.name;
        a.constant = static_cast<int64_t>(o.value);
        break;
    case Operand::variable:
        a.variable = body_.variables[o.index].name;
        a.constant = static_cast<int64_t>(o.value);
        break;
    case Operand::special:
        if (o.name == "%tid.x") a.tid[0] = 1;
        if (o.name == "%tid.y") a.tid[1] = 1;
        if (o.name == "%tid.z") a.tid[2] = 1;
        break;
    default: break;
    }
    return a;
}

Address Sums::of_register(uint32_t r, uint32_t at)
{
    constexpr int kMost = 100;
    if (state_[r] == 2) return sums_[r];
    Address a;
    if (at == kAnywhere && state_[r] == 0) {
        state_[r] = 1;
        if (++steps_ > kMost || !resolve(r, at, a)) a = {}, a.add(r, 1);
        sums_[r] = a;
        state_[r] = 2;
        return a;
    }
    // What is made right before, of registers that have not changed since.
    if (at != kAnywhere && maker_[r] < kMany) {
        if (run_[maker_[r]] != run_[at] || maker_[r] > at) return of_register(r, kAnywhere);
        if (++steps_ <= kMost && resolve(r, at, a)) return a;
    }
    a = {};
    a.add(r, 1);
    return a;
}

bool Sums::is_number(const Operand &o, uint32_t maker, uint32_t at) const
{
    switch (o.kind) {
    case Operand::special: return o.name.starts_with("%tid.");
    case Operand::reg:
        if (maker_[o.index] < kMany) return true;
        return at != kAnywhere && maker_[o.index] == kMany && !written_between(o.index, maker, at);
    case Operand::integer:
    case Operand::symbol:
    case Operand::variable: return true;
    default: return false;
    }
}

// Only of registers that are made once from such, where `at` is anywhere: those that are made again
// would have to be told apart.
bool Sums::resolve(uint32_t r, uint32_t at, Address &a)
{
    if (maker_[r] >= kMany) return false;
    const ptx::Instruction &in = body_.instructions[maker_[r]];
    const std::string_view op = in.opcode;
    const Operand *o = &body_.operands[in.first];
    if (o[0].kind != Operand::reg || in.count < 2) return false;
    for (uint32_t k = 1; k < in.count; ++k)
        if (!is_number(o[k], maker_[r], at)) return false;
    auto whole = [&](std::string_view name) {
        return op.starts_with(name) && op.find(".cc") == op.npos && op.find(".sat") == op.npos &&
               op.find(".f") == op.npos && op.find("16") == op.npos;
    };
    if (whole("mov.") || whole("cvta.to.shared") || op == "cvt.u32.u64" || op == "cvt.u64.u32" ||
        op == "cvt.s64.s32")
        return a.add(of_operand(o[1], at), 1);
    if (in.count == 3 && (whole("add.") || whole("sub.")))
        return a.add(of_operand(o[1], at), 1) &&
               a.add(of_operand(o[2], at), op.starts_with("add.") ? 1 : -1);
    if (in.count == 3 && whole("shl.") && o[2].kind == Operand::integer && o[2].value < 32)
        return a.add(of_operand(o[1], at), int64_t{1} << o[2].value);
    if (in.count == 3 && (whole("mul.lo.") || whole("mul.wide.")))
        return product(a, o[1], o[2], at);
    if (in.count == 4 && (whole("mad.lo.") || whole("mad.wide.")))
        return product(a, o[1], o[2], at) && a.add(of_operand(o[3], at), 1);
    return false;
}

bool Sums::product(Address &a, const Operand &x, const Operand &y, uint32_t at)
{
    const Address p = of_operand(x, at), q = of_operand(y, at);
    constexpr int64_t kMost = 1 << 20;
    if (q.is_constant() && std::abs(q.constant) < kMost) return a.add(p, q.constant);
    if (p.is_constant() && std::abs(p.constant) < kMost) return a.add(q, p.constant);
    return false;
}

}  // namespace rgpu::softgpu::lower
