// SPDX-License-Identifier: Apache-2.0
// Which instructions stand in a loop: strongly connected parts of the control flow.
#include <algorithm>

#include "softgpu/lower/loops.h"

namespace rgpu::softgpu::lower {

using ptx::Operand;

namespace {

void target(const ptx::Body &body, const Operand &o, std::vector<uint32_t> &out)
{
    if (o.kind == Operand::label && body.labels[o.index].instruction < body.instructions.size())
        out.push_back(body.labels[o.index].instruction);
}

}  // namespace

void successors(const ptx::Body &body, uint32_t i, std::vector<uint32_t> &out)
{
    out.clear();
    const ptx::Instruction &in = body.instructions[i];
    bool branch = in.opcode.starts_with("bra") || in.opcode.starts_with("brx");
    bool leaves = in.opcode.starts_with("ret") || in.opcode == "exit" || in.opcode == "trap";
    if (!(branch || leaves) || in.predicate >= 0)
        if (i + 1 < body.instructions.size()) out.push_back(i + 1);
    if (!branch) return;
    for (uint32_t k = 0; k < in.count; ++k) target(body, body.operands[in.first + k], out);
    if (in.opcode.starts_with("brx"))
        for (const ptx::LabelTable &t : body.tables)
            for (const Operand &o : t.targets) target(body, o, out);
}

namespace {

// Tarjan's algorithm without recursion.
class Components {
public:
    Components(uint32_t nodes, const Successors &successors) : successors_(successors), n_(nodes) {}

    std::vector<uint8_t> cyclic()
    {
        index_.assign(n_, 0);
        low_.assign(n_, 0);
        on_stack_.assign(n_, 0);
        cyclic_.assign(n_, 0);
        for (uint32_t i = 0; i < n_; ++i)
            if (!index_[i]) visit(i);
        return std::move(cyclic_);
    }

private:
    struct Frame {
        uint32_t node;
        uint32_t next;
    };

    void visit(uint32_t root)
    {
        std::vector<Frame> frames{{root, 0}};
        std::vector<uint32_t> next;
        index_[root] = low_[root] = ++counter_;
        stack_.push_back(root);
        on_stack_[root] = 1;
        while (!frames.empty()) {
            Frame &f = frames.back();
            successors_(f.node, next);
            if (f.next < next.size()) {
                uint32_t to = next[f.next++];
                if (!index_[to]) {
                    index_[to] = low_[to] = ++counter_;
                    stack_.push_back(to);
                    on_stack_[to] = 1;
                    frames.push_back({to, 0});
                } else if (on_stack_[to]) {
                    low_[f.node] = std::min(low_[f.node], index_[to]);
                    if (to == f.node) cyclic_[to] = 1;
                }
                continue;
            }
            uint32_t done = f.node;
            frames.pop_back();
            if (!frames.empty())
                low_[frames.back().node] = std::min(low_[frames.back().node], low_[done]);
            if (low_[done] != index_[done]) continue;
            bool several = stack_.back() != done;
            for (uint32_t member;;) {
                member = stack_.back();
                stack_.pop_back();
                on_stack_[member] = 0;
                if (several) cyclic_[member] = 1;
                if (member == done) break;
            }
        }
    }

    const Successors &successors_;
    uint32_t n_, counter_ = 0;
    std::vector<uint32_t> index_, low_, stack_;
    std::vector<uint8_t> on_stack_, cyclic_;
};

}  // namespace

std::vector<uint8_t> find_cyclic(uint32_t nodes, const Successors &next)
{
    return Components(nodes, next).cyclic();
}

std::vector<uint8_t> find_loops(const ptx::Body &body)
{
    return find_cyclic(static_cast<uint32_t>(body.instructions.size()),
                       [&](uint32_t i, std::vector<uint32_t> &next) { successors(body, i, next); });
}

bool is_read(const ptx::Body &body, uint32_t reg)
{
    // The first operand of an instruction is what it writes, except for stores.
    for (const ptx::Instruction &in : body.instructions) {
        if (in.predicate == static_cast<int32_t>(reg)) return true;
        bool writes = !in.opcode.starts_with("st.") && !in.opcode.starts_with("red.");
        for (uint32_t k = writes ? 1 : 0; k < in.count; ++k) {
            const Operand &o = body.operands[in.first + k];
            if (o.kind == Operand::reg && o.index == reg) return true;
            if (o.kind == Operand::address || o.kind == Operand::vector || o.kind == Operand::list)
                for (uint32_t c = 0; c < o.count; ++c) {
                    const Operand &inner = body.children[o.index + c];
                    if (inner.kind == Operand::reg && inner.index == reg) return true;
                    if (inner.kind == Operand::vector) return true;
                }
        }
    }
    return false;
}

}  // namespace rgpu::softgpu::lower
