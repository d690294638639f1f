// SPDX-License-Identifier: Apache-2.0
// Decodes just enough of x86-64 to compute a ModRM operand's address.
#include "softgpu/exec/instruction.h"

#include <cstring>

namespace rgpu::softgpu::exec {

namespace {

constexpr int kRegisters[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                              REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                              REG_R12, REG_R13, REG_R14, REG_R15};

struct Decoder {
    const ucontext_t &context;
    const uint8_t *at;
    bool b = false, x = false;  // the prefix' high bits of base and index
    bool evex = false;
    unsigned vector_bytes = 16;

    uint64_t reg(unsigned n) const
    {
        return static_cast<uint64_t>(context.uc_mcontext.gregs[kRegisters[n]]);
    }

    // Past prefixes and opcode, to the ModRM byte. Only two-byte (0F) opcodes and their VEX and
    // EVEX forms can be aligned vector accesses.
    bool opcode()
    {
        while (*at == 0x66 || *at == 0xF2 || *at == 0xF3) ++at;
        if (*at == 0xC5) {
            at += 3;
        } else if (*at == 0xC4) {
            b = !(at[1] & 0x20), x = !(at[1] & 0x40);
            at += 4;
        } else if (*at == 0x62) {
            b = !(at[1] & 0x20), x = !(at[1] & 0x40);
            evex = true;
            vector_bytes = 16u << (at[3] >> 5 & 3);
            at += 5;
        } else {
            if ((*at & 0xF0) == 0x40) {
                b = *at & 1, x = *at & 2;
                ++at;
            }
            if (at[0] != 0x0F) {
                ++at;  // a plain move: only its address can be wrong
                return true;
            }
            at += at[1] == 0x38 || at[1] == 0x3A ? 3 : 2;
        }
        return true;
    }

    std::optional<uint64_t> operand()
    {
        unsigned mod = *at >> 6, rm = *at & 7;
        ++at;
        if (mod == 3) return {};
        uint64_t address = 0;
        bool absolute = false;
        if (rm == 4) {
            unsigned scale = *at >> 6, index = (*at >> 3 & 7) | (x ? 8 : 0), base = *at & 7;
            ++at;
            if (index != 4) address += reg(index) << scale;
            absolute = mod == 0 && base == 5;
            if (!absolute) address += reg(base | (b ? 8 : 0));
        } else if (mod == 0 && rm == 5) {
            return {};  // relative to code: never the kernel's doing
        } else {
            address = reg(rm | (b ? 8 : 0));
        }
        if (mod == 1) {
            int64_t displacement = static_cast<int8_t>(*at);
            return address +
                   static_cast<uint64_t>(evex ? displacement * vector_bytes : displacement);
        }
        if (mod == 2 || absolute) {
            int32_t displacement;
            memcpy(&displacement, at, sizeof displacement);
            address += static_cast<uint64_t>(int64_t{displacement});
        }
        return address;
    }
};

}  // namespace

std::optional<uint64_t> operand_address(const ucontext_t &context)
{
    Decoder d{context, reinterpret_cast<const uint8_t *>(context.uc_mcontext.gregs[REG_RIP])};
    return d.opcode() ? d.operand() : std::nullopt;
}

}  // namespace rgpu::softgpu::exec
