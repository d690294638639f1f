// SPDX-License-Identifier: Apache-2.0
#include "softgpu/lower/uniform.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "softgpu/lower/loops.h"

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
    Finder(const Unit &unit, const ptx::Function &f, const ptx::Body &body, const Flow &flow,
           Lockstep how)
        : unit_(unit), f_(f), body_(body), flow_(flow), how_(how)
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
            changed |= visit_turns();
        }
        find_joins();
    }

    // --- lanes in different turns of a loop

    // Do all lanes that come to its end wait there for those that are behind?
    bool stops(uint32_t b) const
    {
        const BasicBlock &block = flow_.blocks()[b];
        switch (block.cut) {
        case Cut::none: return false;
        case Cut::meeting: return body_.instructions[block.first].predicate < 0;
        case Cut::step: return !found_.divergent[b];
        case Cut::join: return true;
        }
        return false;
    }

    // The blocks in loops that lanes may go through again before they stop.
    std::vector<uint8_t> find_turning() const
    {
        return find_cyclic(static_cast<uint32_t>(flow_.blocks().size()),
                           [&](uint32_t b, std::vector<uint32_t> &next) {
                               next.clear();
                               if (!stops(b)) next = flow_.blocks()[b].next;
                           });
    }

    bool is_divergent_cut(uint32_t b) const
    {
        return found_.divergent[b] && flow_.blocks()[b].cut != Cut::none;
    }

    // Lanes may come to a cut in different turns, and then know different values of what is written
    // in a turn.
    bool visit_turns()
    {
        const auto &blocks = flow_.blocks();
        const auto n = static_cast<uint32_t>(blocks.size());
        std::vector<uint8_t> turning;
        std::vector<std::vector<uint32_t>> before;
        bool changed = false;
        for (uint32_t cut = 0; cut < n; ++cut) {
            if (!is_divergent_cut(cut)) continue;
            if (turning.empty()) {
                turning = find_turning();
                before.resize(n);
                for (uint32_t b = 0; b < n; ++b)
                    if (!stops(b))
                        for (uint32_t to : blocks[b].next) before[to].push_back(b);
            }
            std::vector<uint8_t> seen(n, 0);
            std::vector<uint32_t> open{cut};
            while (!open.empty()) {
                const uint32_t at = open.back();
                open.pop_back();
                for (uint32_t b : before[at]) {
                    if (seen[b]) continue;
                    seen[b] = 1;
                    open.push_back(b);
                    if (turning[b]) changed |= vary(b, cut);
                }
            }
        }
        return changed;
    }

    // What the block writes and somebody at the cut reads.
    bool vary(uint32_t b, uint32_t cut)
    {
        const BasicBlock &block = flow_.blocks()[b], &at = flow_.blocks()[cut];
        const std::vector<uint32_t> &reads = flow_.access(at.first).reads;
        bool changed = false;
        for (uint32_t i = block.first; i < block.last; ++i)
            for (uint32_t r : flow_.access(i).writes) {
                const bool read = at.live_out.has(r) ||
                                  std::find(reads.begin(), reads.end(), r) != reads.end();
                if (!read || found_.varies[r] || found_.again[r] != Values::kNever) continue;
                found_.varies[r] = 1;
                changed = true;
            }
        return changed;
    }

    void find_joins()
    {
        const auto n = static_cast<uint32_t>(flow_.blocks().size());
        std::vector<uint8_t> turning;
        for (uint32_t b = 0; b < n; ++b) {
            if (flow_.blocks()[b].next.size() < 2 || !parts(flow_.blocks()[b].last - 1)) continue;
            const uint32_t after = flow_.after(b);
            if (after == Flow::kNone || stops(after)) continue;
            const std::vector<uint32_t> between = flow_.influence(b);
            if (std::none_of(between.begin(), between.end(),
                             [&](uint32_t to) { return is_divergent_cut(to); }))
                continue;
            if (turning.empty()) turning = find_turning();
            const bool touched = std::any_of(between.begin(), between.end(),
                                             [&](uint32_t to) { return touches(to); });
            if ((turning[b] && turning[after]) || (touched && comes_to_access(after)))
                found_.joins.push_back(flow_.blocks()[after].first);
        }
    }

    bool touches(uint32_t b) const
    {
        const BasicBlock &block = flow_.blocks()[b];
        for (uint32_t i = block.first; i < block.last; ++i)
            if (is_seen(body_.instructions[i].opcode, how_)) return true;
        return false;
    }

    // Before lanes stop?
    bool comes_to_access(uint32_t from) const
    {
        std::vector<uint8_t> seen(flow_.blocks().size(), 0);
        std::vector<uint32_t> open{from};
        seen[from] = 1;
        while (!open.empty()) {
            const uint32_t b = open.back();
            open.pop_back();
            if (stops(b)) continue;
            if (touches(b)) return true;
            for (uint32_t to : flow_.blocks()[b].next)
                if (!seen[to]) seen[to] = 1, open.push_back(to);
        }
        return false;
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
    const Lockstep how_;
    Values found_;
};

}  // namespace

Values find_values(const Unit &unit, const ptx::Function &f, const ptx::Body &body,
                   const Flow &flow, Lockstep how)
{
    return Finder(unit, f, body, flow, how).find();
}

}  // namespace rgpu::softgpu::lower
