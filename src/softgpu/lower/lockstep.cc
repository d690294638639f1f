// SPDX-License-Identifier: Apache-2.0
// Two accesses of shared memory need a step between them where one of them stores, no meeting lies
// between them, and what one lane stores another one may load or store.
#include "softgpu/lower/lockstep.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "softgpu/lower/address.h"
#include "softgpu/lower/loops.h"

namespace rgpu::softgpu::lower {

using ptx::Operand;

namespace {

constexpr uint32_t kNone = UINT32_MAX;
constexpr int64_t kLanesOfWarp = 32;
// Past this many accesses only the volatile ones are looked at: pairs are compared.
constexpr size_t kMostAccesses = 1024;

bool is_access(std::string_view op)
{
    if (!op.starts_with("ld.") && !op.starts_with("st.") && !op.starts_with("atom.") &&
        !op.starts_with("red."))
        return false;
    return op.find(".shared") != op.npos;
}

// Where a branch has left only lanes whose %tid.x is below a register or a number.
struct Guard {
    uint32_t branch = kNone;
    Address below;
};

// An access of shared memory.
struct Touch {
    uint32_t instruction;
    Guard guard;
    bool load, store, atomic, declared;  // declared: volatile
    int64_t bytes;
    Address at;
};

Touch touch_of(const ptx::Body &body, uint32_t i, Sums &sums)
{
    const ptx::Instruction &in = body.instructions[i];
    const std::string_view op = in.opcode;
    Touch t{};
    t.instruction = i;
    t.load = op.starts_with("ld.");
    t.atomic = op.starts_with("atom.") || op.starts_with("red.");
    t.store = !t.load;
    t.declared = op.find(".volatile") != op.npos;
    t.bytes = op.ends_with("64") ? 8 : op.ends_with("16") ? 2 : op.ends_with("8") ? 1 : 4;
    if (op.ends_with("128")) t.bytes = 16;
    t.bytes *= op.find(".v4") != op.npos ? 4 : op.find(".v2") != op.npos ? 2 : 1;
    for (uint32_t k = 0; k < in.count; ++k)
        if (body.operands[in.first + k].kind == Operand::address) {
            t.at = sums.of(body.operands[in.first + k], i);
            break;
        }
    return t;
}

// May different lanes of a warp touch the same with these two? Addresses of equal terms are apart
// by what %tid makes of them.
bool lanes_overlap(const Touch &a, const Touch &b)
{
    const int64_t apart = a.at.constant - b.at.constant;
    const bool rows = a.at.tid[1] != 0;
    for (int64_t x = 1 - kLanesOfWarp; x < kLanesOfWarp; ++x)
        for (int64_t y = rows ? 1 - kLanesOfWarp : 0; y < (rows ? kLanesOfWarp : 1); ++y) {
            const int64_t d = apart + x * a.at.tid[0] + y * a.at.tid[1];
            if (d < b.bytes && -d < a.bytes) return true;
        }
    return false;
}

// As s[t] += s[t + k] where t < k: what is loaded there nobody stores there.
bool guarded(const Touch &a, const Touch &b)
{
    if (a.guard.branch == kNone || a.guard.branch != b.guard.branch ||
        a.at.variable != b.at.variable)
        return false;
    const int64_t times = a.at.tid[0];
    if (a.at.tid != b.at.tid || times < std::max(a.bytes, b.bytes)) return false;
    Address apart = a.at;
    apart.variable = {};
    Address other = b.at;
    other.variable = {};
    if (!apart.add(other, -1)) return false;
    // One is that far from the other, or further.
    for (const int64_t sign : {1, -1}) {
        Address more;
        if (!more.add(apart, sign) || !more.add(a.guard.below, -times)) return false;
        if (more.is_constant() && more.constant >= 0) return true;
    }
    return false;
}

// `moved`: a register in the earlier one's address has another value since.
bool conflict(const Touch &earlier, const Touch &later, bool moved)
{
    if ((earlier.load && later.load) || (earlier.atomic && later.atomic)) return false;
    if (earlier.declared && later.declared) return true;
    const Address &a = earlier.at, &b = later.at;
    if (!a.variable.empty() && !b.variable.empty() && a.variable != b.variable) return false;
    if (!moved && guarded(earlier, later)) return false;
    if (a.variable != b.variable || a.terms != b.terms || a.tid != b.tid) return true;
    // Stores to the parts of what a lane has there.
    if (earlier.store && later.store) return false;
    if (moved) return true;
    // Each lane has its own there?
    if (a.constant == b.constant) return std::abs(a.tid[0]) < std::max(earlier.bytes, later.bytes);
    if (!a.terms.empty() || a.tid[2]) return true;
    return lanes_overlap(earlier, later);
}

class Finder {
public:
    Finder(const ptx::Body &body, const std::vector<uint8_t> &meetings, Lockstep how)
        : body_(body), meetings_(meetings), n_(static_cast<uint32_t>(body.instructions.size())),
          accesses_(find_accesses(body)), number_(n_, kNone), begins_(n_ + 1, 0)
    {
        for (const ptx::Label &l : body.labels) begins_[std::min(l.instruction, n_)] = 1;
        size_t count = 0;
        for (const ptx::Instruction &in : body.instructions) count += is_access(in.opcode);
        const bool all = how == Lockstep::all && count <= kMostAccesses;
        Sums sums(body, accesses_);
        for (uint32_t i = 0; i < n_; ++i) {
            const std::string_view op = body.instructions[i].opcode;
            if (!is_seen(op, all ? how : Lockstep::declared)) continue;
            number_[i] = static_cast<uint32_t>(touches_.size());
            touches_.push_back(touch_of(body, i, sums));
            touches_.back().guard = guard_of(i, sums);
        }
    }

    std::vector<Step> find()
    {
        std::vector<Step> steps(n_, Step::none);
        if (std::none_of(touches_.begin(), touches_.end(),
                         [](const Touch &t) { return t.store || t.declared; }))
            return steps;
        compare();
        const std::vector<uint8_t> cyclic = find_loops(body_);
        const RegisterSet none(touches_.size());
        std::vector<Since> since(n_, {none, none});
        std::vector<uint32_t> next;
        for (bool changed = true; changed;) {
            changed = false;
            for (uint32_t i = 0; i < n_; ++i) {
                Since out = since[i];
                if (meetings_[i] && body_.instructions[i].predicate < 0) out = {none, none};
                const uint32_t t = number_[i];
                if (t != kNone) {
                    if (cyclic[i] && touches_[t].load && touches_[t].declared)
                        steps[i] = Step::spins;
                    else if (steps[i] == Step::none &&
                             (out.fresh.meets(fresh_[t]) || out.moved.meets(moved_[t])))
                        steps[i] = Step::waits;
                    if (steps[i] != Step::none) out = {none, none};
                    out.fresh.add(t);
                }
                move(i, out);
                successors(body_, i, next);
                for (uint32_t to : next) {
                    changed |= since[to].fresh.add(out.fresh);
                    changed |= since[to].moved.add(out.moved);
                }
            }
        }
        return steps;
    }

private:
    struct Since {  // accesses since the last step, on any way to an instruction
        RegisterSet fresh, moved;
    };

    // The branch right before the run that the instruction stands in, if it is the only way there.
    Guard guard_of(uint32_t i, Sums &sums) const
    {
        uint32_t first = i;
        while (first && sums.run_of(first - 1) == sums.run_of(i)) --first;
        if (!first || begins_[first]) return {};
        const ptx::Instruction &branch = body_.instructions[first - 1];
        if (!branch.opcode.starts_with("bra") || branch.predicate < 0) return {};
        const auto p = static_cast<uint32_t>(branch.predicate);
        uint32_t at = first - 1;
        do {
            if (!at || sums.run_of(at - 1) != sums.run_of(first - 1)) return {};
            --at;
        } while (std::find(accesses_[at].writes.begin(), accesses_[at].writes.end(), p) ==
                 accesses_[at].writes.end());
        const ptx::Instruction &in = body_.instructions[at];
        if (!in.opcode.starts_with("setp.") || in.predicate >= 0 || in.count != 3) return {};
        Guard g;
        g.branch = first - 1;
        // What holds where the branch is not taken.
        if (!below(in, branch.predicate_negated, sums, at, g.below)) return {};
        for (const Term &t : g.below.terms)
            if (sums.written_between(t.reg, at, i)) return {};
        return g;
    }

    // Does the comparison's outcome say that %tid.x is below something?
    bool below(const ptx::Instruction &in, bool outcome, Sums &sums, uint32_t at,
               Address &out) const
    {
        auto is = [&](const char *name) { return in.opcode.starts_with(name); };
        if (!is("setp.lt.") && !is("setp.le.") && !is("setp.gt.") && !is("setp.ge.")) return false;
        if (!in.opcode.ends_with(".u32") && !in.opcode.ends_with(".s32")) return false;
        const Operand *o = &body_.operands[in.first];
        Address left = sums.of_value(o[1], at), right = sums.of_value(o[2], at);
        if ((is("setp.gt.") || is("setp.ge.")) == outcome) std::swap(left, right);
        const bool strict = (is("setp.lt.") || is("setp.gt.")) == outcome;
        Address tid;
        tid.tid[0] = 1;
        if (!left.add(tid, -1) || !left.is_constant() || left.constant || !right.variable.empty() ||
            right.tid != std::array<int64_t, 3>{})
            return false;
        out = right;
        out.constant += !strict;
        return true;
    }

    void compare()
    {
        const auto count = static_cast<uint32_t>(touches_.size());
        fresh_.assign(count, RegisterSet(count));
        moved_ = fresh_;
        naming_.assign(body_.registers.size(), {});
        for (uint32_t i = 0; i < count; ++i) {
            for (const Term &t : touches_[i].at.terms) naming_[t.reg].push_back(i);
            for (uint32_t k = 0; k < count; ++k) {
                if (conflict(touches_[k], touches_[i], false)) fresh_[i].add(k);
                if (conflict(touches_[k], touches_[i], true)) moved_[i].add(k);
            }
        }
    }

    // Registers that the instruction writes are others from here on.
    void move(uint32_t i, Since &out) const
    {
        for (uint32_t r : accesses_[i].writes)
            for (uint32_t t : naming_[r])
                if (out.fresh.has(t)) out.fresh.remove(t), out.moved.add(t);
    }

    const ptx::Body &body_;
    const std::vector<uint8_t> &meetings_;
    const uint32_t n_;
    const std::vector<Access> accesses_;
    std::vector<uint32_t> number_;  // of each instruction, among the accesses
    std::vector<uint8_t> begins_;   // instructions that a label stands before
    std::vector<Touch> touches_;
    std::vector<RegisterSet> fresh_, moved_;     // which earlier ones each is in conflict with
    std::vector<std::vector<uint32_t>> naming_;  // the accesses in whose address a register stands
};

}  // namespace

bool is_seen(std::string_view op, Lockstep how)
{
    return is_access(op) && (how == Lockstep::all || op.find(".volatile") != op.npos);
}

std::vector<Step> find_steps(const ptx::Body &body, const std::vector<uint8_t> &meetings,
                             Lockstep how)
{
    return Finder(body, meetings, how).find();
}

bool may_have_steps(const ptx::Body &body)
{
    bool loads = false, stores = false;
    for (const ptx::Instruction &in : body.instructions) {
        if (!is_access(in.opcode)) continue;
        (in.opcode.starts_with("ld.") ? loads : stores) = true;
    }
    return loads && stores;
}

}  // namespace rgpu::softgpu::lower
