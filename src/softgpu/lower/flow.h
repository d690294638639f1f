// SPDX-License-Identifier: Apache-2.0
// A body's basic blocks, and what each instruction reads and writes: for the analyses that follow
// values through a kernel (uniform.h, segments.h).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "softgpu/lower/forms.h"
#include "softgpu/ptx/ast.h"

namespace rgpu::softgpu::lower {

// What an instruction does to registers; the predicate is among what it reads.
struct Access {
    std::vector<uint32_t> reads, writes;
    bool certain = false;  // it writes whenever control comes to it, and whole registers
};

// Of every instruction.
std::vector<Access> find_accesses(const ptx::Body &);

// Numbers below a bound: of registers, mostly.
class RegisterSet {
public:
    explicit RegisterSet(size_t registers = 0) : words_((registers + 63) / 64) {}
    bool has(uint32_t r) const { return words_[r / 64] >> (r % 64) & 1; }
    void add(uint32_t r) { words_[r / 64] |= uint64_t{1} << (r % 64); }
    void remove(uint32_t r) { words_[r / 64] &= ~(uint64_t{1} << (r % 64)); }
    // True where that adds something.
    bool add(const RegisterSet &);
    bool meets(const RegisterSet &) const;

private:
    std::vector<uint64_t> words_;
};

// Where lanes stop: behind a meeting; before a step, a join, which is a step at which all lanes
// that have parted come together again.
enum class Cut : uint8_t { none, meeting, step, join };

// The instructions [first, last).
struct BasicBlock {
    uint32_t first = 0, last = 0;
    std::vector<uint32_t> next;
    RegisterSet live_out;
    Cut cut = Cut::none;  // its only instruction
    bool leaves = false;  // nothing but the end of the thread
};

class Flow {
public:
    // Blocks also begin and end around cuts.
    Flow(const ptx::Body &, const std::vector<Cut> &);

    const std::vector<BasicBlock> &blocks() const { return blocks_; }
    const Access &access(uint32_t instruction) const { return accesses_[instruction]; }
    uint32_t block_of(uint32_t instruction) const { return block_of_[instruction]; }
    // The blocks whose turn to run hangs on which way control goes at the end of this one. Ways
    // that only end the thread do not count.
    std::vector<uint32_t> influence(uint32_t block) const;
    // The first block that all ways from the end of this one come to, or kNone: the thread's end.
    uint32_t after(uint32_t block) const;
    static constexpr uint32_t kNone = UINT32_MAX;

private:
    void find_blocks(const ptx::Body &, const std::vector<Cut> &);
    void find_live(size_t registers);
    void find_post_dominators();

    std::vector<Access> accesses_;
    std::vector<BasicBlock> blocks_;
    std::vector<uint32_t> block_of_;
    std::vector<std::vector<uint32_t>> stays_;  // `next` without ways that only end the thread
    std::vector<uint32_t> after_;               // each block's immediate post-dominator
};

// True where the first operand of an instruction with this opcode is no destination.
bool writes_nothing(std::string_view opcode);

}  // namespace rgpu::softgpu::lower
