// SPDX-License-Identifier: Apache-2.0
#include "softgpu/lower/flow.h"

#include <algorithm>

#include "softgpu/lower/dominators.h"
#include "softgpu/lower/loops.h"

namespace rgpu::softgpu::lower {

using ptx::Operand;

namespace {

bool leaves(std::string_view op) { return op.starts_with("ret") || op == "exit" || op == "trap"; }

void registers_in(const ptx::Body &body, const Operand &o, std::vector<uint32_t> &out)
{
    if (o.kind == Operand::reg) out.push_back(o.index);
    if (o.kind == Operand::address || o.kind == Operand::vector || o.kind == Operand::list ||
        o.kind == Operand::pair)
        for (uint32_t c = 0; c < o.count; ++c) registers_in(body, body.children[o.index + c], out);
}

Access access_of(const ptx::Body &body, const ptx::Instruction &in)
{
    Access a;
    a.certain = in.predicate < 0;
    if (in.predicate >= 0) a.reads.push_back(static_cast<uint32_t>(in.predicate));
    uint32_t k = 0;
    if (in.count && !writes_nothing(in.opcode)) {
        const Operand &d = body.operands[in.first];
        // A call's results; what comes first without results is the function.
        if (!in.opcode.starts_with("call")) {
            registers_in(body, d, d.kind == Operand::address ? a.reads : a.writes);
            k = 1;
        } else if (d.kind == Operand::list) {
            registers_in(body, d, a.writes);
            a.certain = false;
            k = 1;
        }
        // Part of a register: what a video instruction selects.
        if (d.kind == Operand::reg && d.value) a.certain = false;
    }
    for (; k < in.count; ++k) registers_in(body, body.operands[in.first + k], a.reads);
    // What may keep its old value is read, in effect.
    if (!a.certain) a.reads.insert(a.reads.end(), a.writes.begin(), a.writes.end());
    return a;
}

}  // namespace

bool writes_nothing(std::string_view op)
{
    for (std::string_view name : {"st.",         "red.",           "bra",           "brx",
                                  "ret",         "exit",           "trap",          "membar",
                                  "fence",       "prefetch",       "cp.",           "discard",
                                  "nanosleep",   "stmatrix",       "wmma.store",    "pmevent",
                                  "applypriori", "griddepcontrol", "setmaxn",       "stackrest",
                                  "brkpt",       "mbarrier.init",  "mbarrier.inval"})
        if (op.starts_with(name)) return true;
    return (op.starts_with("bar.") || op.starts_with("barrier.")) && op.find(".red.") == op.npos;
}

bool RegisterSet::add(const RegisterSet &other)
{
    uint64_t added = 0;
    for (size_t i = 0; i < words_.size(); ++i) {
        added |= other.words_[i] & ~words_[i];
        words_[i] |= other.words_[i];
    }
    return added;
}

bool RegisterSet::meets(const RegisterSet &other) const
{
    for (size_t i = 0; i < words_.size(); ++i)
        if (words_[i] & other.words_[i]) return true;
    return false;
}

std::vector<Access> find_accesses(const ptx::Body &body)
{
    std::vector<Access> all;
    all.reserve(body.instructions.size());
    for (const ptx::Instruction &in : body.instructions) all.push_back(access_of(body, in));
    return all;
}

Flow::Flow(const ptx::Body &body, const std::vector<Cut> &cuts) : accesses_(find_accesses(body))
{
    find_blocks(body, cuts);
    find_live(body.registers.size());
    find_post_dominators();
}

void Flow::find_blocks(const ptx::Body &body, const std::vector<Cut> &cuts)
{
    const auto n = static_cast<uint32_t>(body.instructions.size());
    std::vector<uint8_t> begins(n + 1, 0);
    for (const ptx::Label &l : body.labels) begins[std::min(l.instruction, n)] = 1;
    for (uint32_t i = 0; i < n; ++i) {
        std::string_view op = body.instructions[i].opcode;
        if (cuts[i] != Cut::none) begins[i] = 1;
        if (cuts[i] != Cut::none || op.starts_with("bra") || op.starts_with("brx") || leaves(op))
            begins[i + 1] = 1;
    }
    block_of_.resize(n);
    for (uint32_t i = 0; i < n; ++i) {
        if (!i || begins[i]) {
            blocks_.emplace_back();
            blocks_.back().first = i;
            blocks_.back().cut = cuts[i];
        }
        blocks_.back().last = i + 1;
        block_of_[i] = static_cast<uint32_t>(blocks_.size()) - 1;
    }
    std::vector<uint32_t> next;
    for (BasicBlock &b : blocks_) {
        successors(body, b.last - 1, next);
        for (uint32_t i : next) b.next.push_back(block_of_[i]);
        std::sort(b.next.begin(), b.next.end());
        b.next.erase(std::unique(b.next.begin(), b.next.end()), b.next.end());
        const ptx::Instruction &first = body.instructions[b.first];
        b.leaves = leaves(first.opcode) && first.predicate < 0;
    }
}

void Flow::find_live(size_t registers)
{
    std::vector<RegisterSet> live_in(blocks_.size(), RegisterSet(registers));
    for (BasicBlock &b : blocks_) b.live_out = RegisterSet(registers);
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = blocks_.size(); i-- > 0;) {
            BasicBlock &b = blocks_[i];
            for (uint32_t to : b.next) b.live_out.add(live_in[to]);
            RegisterSet live = b.live_out;
            for (uint32_t k = b.last; k-- > b.first;) {
                const Access &a = accesses_[k];
                if (a.certain)
                    for (uint32_t r : a.writes) live.remove(r);
                for (uint32_t r : a.reads) live.add(r);
            }
            changed |= live_in[i].add(live);
        }
    }
}

// Dominators from the ends backwards; the node past the blocks stands for all ends.
void Flow::find_post_dominators()
{
    const auto n = static_cast<uint32_t>(blocks_.size());
    stays_.resize(n);
    Edges backwards(n + 1);
    for (uint32_t i = 0; i < n; ++i) {
        for (uint32_t to : blocks_[i].next)
            if (!blocks_[to].leaves) stays_[i].push_back(to);
        if (stays_[i].empty()) backwards[n].push_back(i);
        for (uint32_t to : stays_[i]) backwards[to].push_back(i);
    }
    const Dominators found(backwards, n);
    after_.resize(n);
    for (uint32_t i = 0; i < n; ++i) after_[i] = found.of(i);
}

uint32_t Flow::after(uint32_t block) const
{
    return after_[block] < blocks_.size() ? after_[block] : kNone;
}

std::vector<uint32_t> Flow::influence(uint32_t block) const
{
    std::vector<uint32_t> found;
    if (stays_[block].size() < 2) return found;
    std::vector<uint8_t> seen(blocks_.size(), 0);
    std::vector<uint32_t> open;
    auto reach = [&](uint32_t from) {
        for (uint32_t to : stays_[from]) {
            if (to == after_[block] || seen[to]) continue;
            seen[to] = 1;
            found.push_back(to);
            open.push_back(to);
        }
    };
    reach(block);
    while (!open.empty()) {
        const uint32_t at = open.back();
        open.pop_back();
        reach(at);
    }
    return found;
}

}  // namespace rgpu::softgpu::lower
