// SPDX-License-Identifier: Apache-2.0
// Addresses as sums: a variable, multiples of %tid and of registers, a constant.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "softgpu/lower/flow.h"
#include "softgpu/ptx/ast.h"

namespace rgpu::softgpu::lower {

struct Term {
    uint32_t reg;
    int64_t times;
    bool operator==(const Term &) const = default;
};

struct Address {
    std::string_view variable;     // empty: none
    std::array<int64_t, 3> tid{};  // times %tid.x, y and z
    std::vector<Term> terms;       // by register
    int64_t constant = 0;

    // False where that is no sum any more.
    bool add(const Address &, int64_t times);
    void add(uint32_t reg, int64_t times);
    bool is_constant() const;
};

class Sums {
public:
    Sums(const ptx::Body &, const std::vector<Access> &);

    // What an address operand of the instruction comes to. Registers that are written more than
    // once stand for what they hold there.
    Address of(const ptx::Operand &, uint32_t instruction);
    // What a register or number comes to there.
    Address of_value(const ptx::Operand &, uint32_t instruction);
    // The instructions around this one that control comes to one after the other, without any
    // other way in or out.
    uint32_t run_of(uint32_t instruction) const { return run_[instruction]; }
    // Is the register written behind one instruction and before the other?
    bool written_between(uint32_t reg, uint32_t from, uint32_t to) const;

private:
    static constexpr uint32_t kAnywhere = UINT32_MAX;
    static constexpr uint32_t kMany = UINT32_MAX - 1, kNever = UINT32_MAX;

    Address of_operand(const ptx::Operand &, uint32_t at);
    Address of_register(uint32_t reg, uint32_t at);
    bool is_number(const ptx::Operand &, uint32_t maker, uint32_t at) const;
    bool resolve(uint32_t reg, uint32_t at, Address &);
    bool product(Address &, const ptx::Operand &, const ptx::Operand &, uint32_t at);
    void find_runs();

    const ptx::Body &body_;
    const std::vector<Access> &accesses_;
    std::vector<uint32_t> maker_;  // of each register: what writes it, or kMany, or kNever
    std::vector<uint32_t> run_;
    std::vector<Address> sums_;  // of registers, the same wherever they are read
    std::vector<uint8_t> state_;
    int steps_ = 0;
};

}  // namespace rgpu::softgpu::lower
