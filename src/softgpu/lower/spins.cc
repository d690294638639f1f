// SPDX-License-Identifier: Apache-2.0
#include "softgpu/lower/spins.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

#include "softgpu/lower/address.h"
#include "softgpu/lower/dominators.h"
#include "softgpu/lower/flow.h"
#include "softgpu/lower/loops.h"

namespace rgpu::softgpu::lower {

using ptx::Operand;

namespace {

// Follows what an atomic operation gives: through registers, branches and shared variables.
class Outcome {
public:
    Outcome(const ptx::Body &body)
        : body_(body), flow_(body, std::vector<Cut>(body.instructions.size(), Cut::none)),
          ends_(backwards(flow_.blocks()), static_cast<uint32_t>(flow_.blocks().size())),
          accesses_(find_accesses(body)), sums_(body, accesses_)
    {}

    // Does it decide whether the operation is carried out again?
    bool decides(uint32_t atomic)
    {
        seen_.assign(body_.registers.size(), 0);
        variables_.clear();
        for (uint32_t r : flow_.access(atomic).writes) seen_[r] = 1;
        const uint32_t there = flow_.block_of(atomic);
        for (bool changed = true; changed;) {
            changed = false;
            for (uint32_t i = 0; i < body_.instructions.size(); ++i) {
                const std::string_view op = body_.instructions[i].opcode;
                const bool read = reads(i);
                if (!read && !(op.starts_with("ld.shared") && variables_.contains(variable(i))) &&
                    !(op.starts_with("ld.volatile.shared") && variables_.contains(variable(i))))
                    continue;
                if (i == atomic && read) return true;
                if (op.starts_with("bra") || op.starts_with("brx") || op.starts_with("ret") ||
                    op == "exit") {
                    for (uint32_t b : influence(flow_.block_of(i))) {
                        if (b == there) return true;
                        for (uint32_t k = flow_.blocks()[b].first; k < flow_.blocks()[b].last; ++k)
                            changed |= follow(k);
                    }
                    continue;
                }
                changed |= follow(i);
            }
        }
        return false;
    }

private:
    // The blocks that hang on the branch at the end of this one, ways to the thread's end included.
    std::vector<uint32_t> influence(uint32_t block) const
    {
        const auto &blocks = flow_.blocks();
        std::vector<uint32_t> found, open{block};
        if (blocks[block].next.size() + may_end(blocks[block]) < 2) return found;
        std::vector<uint8_t> seen(blocks.size(), 0);
        while (!open.empty()) {
            const uint32_t at = open.back();
            open.pop_back();
            for (uint32_t to : blocks[at].next) {
                if (to == ends_.of(block) || seen[to]) continue;
                seen[to] = 1;
                found.push_back(to);
                open.push_back(to);
            }
        }
        return found;
    }

    // Do some threads end behind it, and others go on?
    bool may_end(const BasicBlock &b) const
    {
        const ptx::Instruction &in = body_.instructions[b.last - 1];
        return in.predicate >= 0 && (in.opcode.starts_with("ret") || in.opcode == "exit");
    }

    Edges backwards(const std::vector<BasicBlock> &blocks) const
    {
        const auto n = static_cast<uint32_t>(blocks.size());
        Edges edges(n + 1);
        for (uint32_t b = 0; b < n; ++b) {
            if (blocks[b].next.empty() || may_end(blocks[b])) edges[n].push_back(b);
            for (uint32_t to : blocks[b].next) edges[to].push_back(b);
        }
        return edges;
    }

    bool reads(uint32_t i) const
    {
        const std::vector<uint32_t> &r = flow_.access(i).reads;
        return std::any_of(r.begin(), r.end(), [&](uint32_t reg) { return seen_[reg] != 0; });
    }

    bool follow(uint32_t i)
    {
        bool changed = false;
        for (uint32_t r : flow_.access(i).writes)
            if (!seen_[r]) seen_[r] = 1, changed = true;
        const std::string_view op = body_.instructions[i].opcode;
        if ((op.starts_with("st.") || op.starts_with("red.") || op.starts_with("atom.")) &&
            op.find(".shared") != op.npos)
            changed |= variables_.insert(variable(i)).second;
        return changed;
    }

    // Whose memory it touches; empty: not known.
    std::string_view variable(uint32_t i)
    {
        const ptx::Instruction &in = body_.instructions[i];
        for (uint32_t k = 0; k < in.count; ++k) {
            const Operand &o = body_.operands[in.first + k];
            if (o.kind == Operand::address) return sums_.of(o, i).variable;
        }
        return {};
    }

    const ptx::Body &body_;
    const Flow flow_;
    const Dominators ends_;  // what all ways to the end pass; the last node is the end
    const std::vector<Access> accesses_;
    Sums sums_;
    std::vector<uint8_t> seen_;
    std::set<std::string_view> variables_;
};

}  // namespace

bool spins(const ptx::Function &f, const ptx::Body &body, const Forms &forms, bool cut)
{
    std::vector<uint8_t> loops;
    std::optional<Outcome> outcome;
    for (uint32_t i = 0; i < body.instructions.size(); ++i) {
        const ptx::Instruction &in = body.instructions[i];
        const Row &row = *forms[i]->row;
        if (!(row.need & kSpins)) continue;
        if (cut && f.kernel && in.opcode.starts_with("ld.volatile.shared")) continue;
        if (loops.empty()) loops = find_loops(body);
        if (f.kernel && !loops[i]) continue;
        const Operand &d = body.operands[in.first];
        if ((row.need & kIfUsed) &&
            (d.kind == Operand::sink || (d.kind == Operand::reg && !is_read(body, d.index))))
            continue;
        if ((row.need & kIfUsed) && f.kernel) {
            if (!outcome) outcome.emplace(body);
            if (!outcome->decides(i)) continue;
        }
        return true;
    }
    return false;
}

}  // namespace rgpu::softgpu::lower
