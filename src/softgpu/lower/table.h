// SPDX-License-Identifier: Apache-2.0
// THE instruction table: one row an instruction form. Loading a module checks every instruction
// against it; lowering calls the row's function. To add an instruction, add a row in the file of
// its group.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "softgpu/ptx/type.h"

namespace rgpu::softgpu::lower {

using ptx::Type;

class Lower;

// What an instruction asks of the kernel that holds it.
enum Need : uint8_t {
    kNothing = 0,
    kThread = 1,  // waits for other threads, always
    kMeets = 16,  // with kThread: through Lower::meet(), where a kernel can be cut
    kSpins = 2,   // may be what a thread spins on, where it is in a loop
    kIfUsed = 4,  // with kSpins: only where its result is read
    kMinus = 8,   // nothing; its source registers may stand with a minus
};

// `modifiers`: what may follow the opcode, in order, separated by blanks; alternatives by '|'; '?'
// in front of what may be left out; $name for a set of alternatives (table.cc). After '~' the words
// may come in any order, as programs write those of atom.
struct Row {
    std::string_view opcode;
    std::string_view modifiers;
    uint8_t min_operands, max_operands;
    void (*lower)(Lower &);
    uint8_t need = kNothing;
};

// An opcode with its modifiers, matched to a row.
struct Form {
    static constexpr unsigned kMost = 20;
    const Row *row = nullptr;
    std::array<std::string_view, kMost> modifiers;  // in the order of the text
    std::array<Type, 4> types;                      // those of them that are types
    uint8_t count = 0, type_count = 0;

    bool has(std::string_view m) const
    {
        for (unsigned i = 0; i < count; ++i)
            if (modifiers[i] == m) return true;
        return false;
    }
    // The first modifier that begins so, or nothing.
    std::string_view starting(std::string_view prefix) const
    {
        for (unsigned i = 0; i < count; ++i)
            if (modifiers[i].starts_with(prefix)) return modifiers[i];
        return {};
    }
};

// The form of an opcode as written, or null where there is no such instruction. Forms live for
// ever; any thread.
const Form *find_form(std::string_view opcode);

// The form of what the table lacks, any operands: a kernel that reaches it ends with its text.
const Form *unknown_form();

// The groups.
std::span<const Row> integer_rows();
std::span<const Row> logic_rows();
std::span<const Row> float_rows();
std::span<const Row> half_rows();
std::span<const Row> compare_rows();
std::span<const Row> convert_rows();
std::span<const Row> memory_rows();
std::span<const Row> atomic_rows();
std::span<const Row> control_rows();
std::span<const Row> warp_rows();
std::span<const Row> async_rows();
std::span<const Row> matrix_rows();
std::span<const Row> texture_rows();
std::span<const Row> video_rows();

}  // namespace rgpu::softgpu::lower
