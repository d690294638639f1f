#include "softgpu/lower/uniform.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace rgpu::softgpu::lower {

using ptx::Operand;
using ptx::Space;

namespace {

bool starts(std::string_view op, std::initializer_list<std::string_view> names)
{
    return std::any_of(names.begin(), names.end(),
                       [&](std::string_view n) { return op.starts_with(n); });
}

// Few cycles each: to make them again costs less than to keep their result.
bool is_cheap(std::string_view op)
{
    if (op.find(".f") != op.npos || op.find("cc.") != op.npos || op.find("16x2") != op.npos)
        return false;
    return starts(op, {"mov.",      "add.", "sub.",  "mul.lo.",  "mul.wide.", "mad.lo.",
                       "mad.wide.", "shl.", "shr.",  "and.",     "or.",       "xor.",
                       "not.",      "neg.", "cvta.", "cvt.",     "setp.",     "selp.",
                       "min.",      "max.", "bfe.",  "ld.param."});
}

// Those whose result follows from their operands.
bool is_function(std::string_view op)
{
    return !starts(op, {"ld",        "atom",     "shfl",     "vote",      "match",    "activemask",
                        "elect",     "redux",    "bar",      "call",      "tex",      "tld4",
                        "mma",       "wmma",     "ldmatrix", "movmatrix", "mbarrier", "alloca",
                        "stacksave", "multimem", "su",       "tensormap", "cp.",      "isspacep"});
}

class Finder {
public:
    Finder(const Unit &unit, const ptx::Function &f, const ptx::Body &body, const Flow &flow)
        : unit_(unit), f_(f), body_(body), flow_(flow)
    {
        found_.varies.assign(body.registers.size(), 0);
        found_.again.assign(body.registers.size(), Values::kNever);
    }

    Values find()
    {
        found_.divergent.assign(flow_.blocks().size(), 0);
        find_again();
        find_varying();
        return std::move(found_);
    }

private:
    const Operand &operand(const ptx::Instruction &in, uint32_t i) const
    {
        return body_.operands[in.first + i];
    }

    template <class F> bool any_operand(const ptx::Instruction &in, F &&is) const
    {
        for (uint32_t k = 0; k < in.count; ++k) {
            const Operand &o = operand(in, k);
            if (is(o)) return true;
            if (o.kind == Operand::address || o.kind == Operand::vector ||
                o.kind == Operand::list || o.kind == Operand::pair)
                for (uint32_t c = 0; c < o.count; ++c)
                    if (is(body_.children[o.index + c])) return true;
        }
        return false;
    }

    bool is_parameter(std::string_view name) const
    {
        return f_.kernel && std::any_of(f_.parameters.begin(), f_.parameters.end(),
                                        [&](const ptx::Variable &p) { return p.name == name; });
    }

    bool is_kernel_parameter(const ptx::Instruction &in) const
    {
        const Operand &a = operand(in, 1);
        return a.kind == Operand::address && a.count == 1 &&
               body_.children[a.index].kind == Operand::symbol &&
               is_parameter(body_.children[a.index].name);
    }

    static bool changes(const Operand &o)  // a special register that is not the same for ever
    {
        return o.kind == Operand::special && starts(o.name, {"%clock", "%globaltimer", "%smid"});
    }

    // --- what can be made again

    void find_again()
    {
        std::vector<uint32_t> times(body_.registers.size(), 0), maker(times);
        const auto n = static_cast<uint32_t>(body_.instructions.size());
        for (uint32_t i = 0; i < n; ++i)
            for (uint32_t r : flow_.access(i).writes) ++times[r], maker[r] = i;
        // A parameter that is a register is written by whoever calls.
        for (const ptx::Variable &p : f_.parameters)
            if (p.space == Space::reg) times[p.reg] += 2;
        for (bool changed = true; changed;) {
            changed = false;
            for (uint32_t r = 0; r < times.size(); ++r) {
                if (times[r] != 1 || found_.again[r] != Values::kNever || !can_repeat(maker[r]))
                    continue;
                found_.again[r] = maker[r];
                changed = true;
            }
        }
    }

    bool can_repeat(uint32_t i) const
    {
        const ptx::Instruction &in = body_.instructions[i];
        const Access &a = flow_.access(i);
        if (!a.certain || a.writes.size() != 1 || !is_cheap(in.opcode) ||
            operand(in, 0).kind != Operand::reg)
            return false;
        if (in.opcode.starts_with("ld.param.") && !is_kernel_parameter(in)) return false;
        if (any_operand(in, changes)) return false;
        return std::all_of(a.reads.begin(), a.reads.end(),
                           [&](uint32_t r) { return found_.again[r] != Values::kNever; });
    }

    // --- what varies

    void find_varying()
    {
        for (const ptx::Variable &p : f_.parameters)
            if (p.space == Space::reg) found_.varies[p.reg] = 1;
        const auto &blocks = flow_.blocks();
        for (bool changed = true; changed;) {
            changed = false;
            for (uint32_t b = 0; b < blocks.size(); ++b) {
                for (uint32_t i = blocks[b].first; i < blocks[b].last; ++i)
                    changed |= visit(i, found_.divergent[b]);
                if (!parts(blocks[b].last - 1)) continue;
                for (uint32_t to : flow_.influence(b))
                    if (!found_.divergent[to]) found_.divergent[to] = 1, changed = true;
            }
        }
    }

    bool visit(uint32_t i, bool divergent)
    {
        const Access &a = flow_.access(i);
        if (a.writes.empty()) return false;
        const bool varies = divergent || result_varies(body_.instructions[i], a);
        bool changed = false;
        for (uint32_t r : a.writes) {
            // One that can be made again is the same whenever it is made.
            const bool here = found_.again[r] == Values::kNever
                                  ? varies
                                  : result_varies(body_.instructions[i], a);
            if (!here || found_.varies[r]) continue;
            found_.varies[r] = 1;
            changed = true;
        }
        return changed;
    }

    bool any_varies(const std::vector<uint32_t> &registers) const
    {
        return std::any_of(registers.begin(), registers.end(),
                           [&](uint32_t r) { return found_.varies[r] != 0; });
    }

    // Does control go different ways behind it?
    bool parts(uint32_t i) const { return any_varies(flow_.access(i).reads); }

    bool operand_varies(const Operand &o) const
    {
        if (o.kind == Operand::special)
            return starts(o.name, {"%tid.x", "%laneid", "%lanemask", "%clock", "%globaltimer"});
        if (o.kind == Operand::variable)
            return body_.variables[o.index].space == Space::local ||
                   body_.variables[o.index].space == Space::param;
        if (o.kind == Operand::symbol) {
            auto s = unit_.find(o.name);
            if (s.kind == Unit::Symbol::variable) return s.variable_->space == Space::local;
            return s.kind == Unit::Symbol::none && !is_parameter(o.name);
        }
        return false;
    }

    bool result_varies(const ptx::Instruction &in, const Access &a) const
    {
        const std::string_view op = in.opcode;
        if (any_varies(a.reads) ||
            any_operand(in, [&](const Operand &o) { return operand_varies(o); }))
            // What a warp has decided together is the same for all whom the mask names.
            return !(is_agreed(op) && same_mask(in));
        if (is_agreed(op)) return false;
        if (op.starts_with("ld.param.")) return !is_kernel_parameter(in);
        if (starts(op, {"ld.global.", "ld.shared.", "ld.const.", "ld.u", "ld.b", "ld.f", "ld.s"}))
            return false;
        return !is_function(op);
    }

    static bool is_agreed(std::string_view op)
    {
        return starts(op, {"vote.", "redux."}) || is_barrier(op);
    }
    static bool is_barrier(std::string_view op)
    {
        return starts(op, {"bar.", "barrier."}) && op.find(".red.") != op.npos;
    }

    bool same_mask(const ptx::Instruction &in) const
    {
        if (in.predicate >= 0 && found_.varies[static_cast<uint32_t>(in.predicate)]) return false;
        if (is_barrier(in.opcode)) return true;
        const Operand &mask = operand(in, in.count - 1);
        return mask.kind == Operand::integer ||
               (mask.kind == Operand::reg && !found_.varies[mask.index]);
    }

    const Unit &unit_;
    const ptx::Function &f_;
    const ptx::Body &body_;
    const Flow &flow_;
    Values found_;
};

}  // namespace

Values find_values(const Unit &unit, const ptx::Function &f, const ptx::Body &body,
                   const Flow &flow)
{
    return Finder(unit, f, body, flow).find();
}

}  // namespace rgpu::softgpu::lower
