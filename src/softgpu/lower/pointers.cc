// SPDX-License-Identifier: Apache-2.0
// Which 64-bit registers hold pointers. Such a register is kept twice, as an integer and as a
// pointer, so that LLVM sees from which object an address comes: without that no loop over memory
// is vectorised.
#include "softgpu/lower/pointers.h"

namespace rgpu::softgpu::lower {

using ptx::Operand;
using ptx::Space;

namespace {

class Pointers {
public:
    Pointers(const ptx::Function &f, const ptx::Body &body)
        : f_(f), body_(body), rank_(body.registers.size(), 0)
    {
        std::vector<uint8_t> defined(rank_.size(), 0);
        for (const ptx::Instruction &in : body.instructions)
            if (in.count && operand(in, 0).kind == Operand::reg) defined[operand(in, 0).index] = 1;
        for (size_t i = 0; i < rank_.size(); ++i)
            rank_[i] = defined[i] && body.registers[i].type.total() == 64 ? 2 : 0;
    }

    // Begins with every register that could be one and takes away what is written with anything
    // else.
    std::vector<uint8_t> find()
    {
        for (bool changed = true; changed;) {
            changed = false;
            for (const ptx::Instruction &in : body_.instructions) changed |= in.count && visit(in);
        }
        return std::move(rank_);
    }

private:
    const Operand &operand(const ptx::Instruction &in, unsigned i) const
    {
        return body_.operands[in.first + i];
    }

    bool visit(const ptx::Instruction &in)
    {
        bool changed = false;
        const Operand &d = operand(in, 0);
        auto lower_to = [&](const Operand &o, uint8_t rank) {
            if (o.kind != Operand::reg || rank_[o.index] <= rank) return;
            rank_[o.index] = rank;
            changed = true;
        };
        if (d.kind == Operand::reg) {
            if (rank_[d.index]) lower_to(d, result(in));
        } else if (d.kind == Operand::vector || d.kind == Operand::pair ||
                   d.kind == Operand::list) {
            for (unsigned c = 0; c < d.count; ++c) lower_to(body_.children[d.index + c], 0);
        }
        return changed;
    }

    uint8_t rank(const Operand &o) const
    {
        if (o.kind == Operand::reg) return rank_[o.index];
        if (o.kind == Operand::variable)
            return body_.variables[o.index].space == Space::shared ? 0 : 2;
        return 0;
    }

    uint8_t result(const ptx::Instruction &in) const
    {
        std::string_view op = in.opcode;
        if (op.starts_with("ld.param.") && (op == "ld.param.u64" || op == "ld.param.b64") &&
            f_.kernel) {
            const Operand &a = operand(in, 1);
            bool parameter = a.kind == Operand::address && a.count &&
                             body_.children[a.index].kind == Operand::symbol;
            return parameter ? 1 : 0;
        }
        if (op.starts_with("cvta.")) {
            if (op.find("shared") != op.npos || op.find("u32") != op.npos) return 0;
            return rank(operand(in, 1)) ? 2 : 0;
        }
        if (op.starts_with("mov.") && in.count == 2) return rank(operand(in, 1));
        if ((op == "add.s64" || op == "add.u64") && in.count == 3) {
            uint8_t a = rank(operand(in, 1)), b = rank(operand(in, 2));
            return a == b ? 0 : a > b ? a : b;
        }
        if ((op == "selp.b64" || op == "selp.u64" || op == "selp.s64") && in.count == 4)
            return std::min(rank(operand(in, 1)), rank(operand(in, 2)));
        return 0;
    }

    const ptx::Function &f_;
    const ptx::Body &body_;
    std::vector<uint8_t> rank_;
};

}  // namespace

std::vector<uint8_t> find_pointers(const ptx::Function &f, const ptx::Body &body)
{
    return Pointers(f, body).find();
}

}  // namespace rgpu::softgpu::lower
