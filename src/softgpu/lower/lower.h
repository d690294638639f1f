// SPDX-License-Identifier: Apache-2.0
// Lowers one PTX function to LLVM IR text. The rows of the table write instructions through it.
//
// Lives for one function of one compilation, on the thread that compiles. The first failure stays,
// and run() returns it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "softgpu/abi.h"
#include "softgpu/lower/congruence.h"
#include "softgpu/lower/forms.h"
#include "softgpu/lower/ir_text.h"
#include "softgpu/lower/nest.h"
#include "softgpu/lower/segments.h"
#include "softgpu/lower/table.h"
#include "softgpu/lower/unit.h"
#include "softgpu/ptx/ast.h"
#include "util/result.h"

namespace rgpu::softgpu::lower {

using ptx::Operand;
using ptx::Space;

class Lower {
public:
    Lower(Unit &, const ptx::Function &, const ptx::Body &, const Forms &);
    // The function's definition.
    Result<std::string> run();
    // The kernel's definition, cut: a function for each segment, which runs it for one lane.
    Result<std::string> run(const Segments &);

    // --- the instruction at hand
    const Form &form() const { return *form_; }
    bool has(std::string_view m) const { return form_->has(m); }
    Type type(unsigned k = 0) const { return form_->types[k]; }
    unsigned operands() const { return in_->count; }
    const Operand &operand(unsigned i) const { return body_.operands[in_->first + i]; }
    const Operand &child(const Operand &o, unsigned i) const { return body_.children[o.index + i]; }
    uint32_t line() const { return in_->line; }
    bool in_loop() const { return in_loop_; }
    // Ends the compilation with this instruction's text.
    void fail(const std::string &why);

    // --- operands
    V get(unsigned i, Type t) { return read(operand(i), t); }
    V read(const Operand &, Type);
    void set(const V &v, Type t) { write(operand(0), v, t); }
    void write(const Operand &, const V &, Type);
    Type register_type(const Operand &o) const { return body_.registers[o.index].type; }
    // A pointer to the memory operand.
    V address(const Operand &, Space);
    // Has the kernel end with a fault if the memory operand is no multiple of so many bytes.
    void check_alignment(const Operand &, Space, unsigned bytes);
    // The pointer that the operand, an address, holds; keeps what LLVM knows of its origin.
    V pointer(const Operand &);
    void write_pointer(const Operand &, const V &);
    bool is_pointer(const Operand &) const;
    unsigned pointer_rank(const Operand &) const;
    const ptx::Variable *variable(const Operand &) const;  // that an operand names, or null
    bool is_parameter(const Operand &) const;              // names a parameter of this kernel

    // --- text
    template <class... Parts> V def(const Parts &...parts)
    {
        V name = fresh();
        ((code_ += "  ") += name) += " = ";
        (append(parts), ...);
        code_ += '\n';
        return name;
    }
    template <class... Parts> void emit(const Parts &...parts)
    {
        code_ += "  ";
        (append(parts), ...);
        code_ += '\n';
    }
    V fresh() { return "%v" + std::to_string(values_++); }
    V slot(const std::string &type);  // an alloca in the entry block
    std::string block() { return "B" + std::to_string(blocks_++); }
    void place(const std::string &block);  // starts it; falls into it from the current one
    void place_after_terminator(const std::string &block);  // starts it; nothing falls into it
    void jump(const std::string &block);                    // ends the current one
    void branch(const V &condition, const std::string &yes, const std::string &no);
    void unreachable();
    std::string label(const Operand &) const;

    // --- common pieces
    V cast(const V &v, const std::string &from, const std::string &to);
    V resize(const V &v, unsigned from, unsigned to, bool sign);  // integers
    V select(const V &c, Type t, const V &a, const V &b);
    V intrinsic(const std::string &type, const std::string &name,
                std::initializer_list<std::pair<std::string, V>> arguments);
    // Calls a function of the prelude / of the engine.
    V helper(std::string_view type, std::string_view name, const std::string &arguments);
    V runtime(std::string_view type, std::string_view name, const std::string &parameters,
              const std::string &arguments, std::string_view attributes = "");
    std::string metadata(Space) const;  // of a load or store
    V thread() const { return "%ts"; }
    V block_state();
    V grid_state();
    V shared_base();
    V state(std::string_view name);  // tid_x ... nctaid_z, lane, warp, smid: special.cc
    V site() { return std::to_string(unit_.sites++); }
    void name_thread();  // tells the engine, before a report, which thread of a block kernel this
                         // is
    void yield();        // lets other threads run, where this one may spin
    V carry();           // the condition code's slot
    Unit &unit() { return unit_; }
    const ptx::Body &body() const { return body_; }
    const ptx::Function &function() const { return function_; }
    const ptx::Instruction &instruction() const { return *in_; }
    V variable_slot(uint32_t index) const { return "%x" + std::to_string(index); }
    V special(const Operand &, Type);
    // Functions return whether the thread ended inside.
    void return_(bool ended = false);
    // Is the kernel cut into segments where its threads meet?
    bool is_cut() const { return segments_ && function_.kernel; }
    // In such a kernel: the segment's end, or the beginning of the one behind. `value` and `wide`
    // are what a lane brings, in 32 bits or 64; what it takes away is the result and, where `flag`
    // is a slot, that.
    struct Meet {
        WarpOp op;
        unsigned detail = 0;
        V mask = {}, value = {}, b = {}, c = {}, flag = {}, wide = {};
    };
    V meet(const Meet &);
    // Behind the meeting: what a lane brings to it is no matter.
    bool resumes() const { return resumes_; }
    V matrix_lane();  // the lane's MatrixLane
    bool is_level() const { return segments_->level; }
    // Calls a function of the module, or its address, and goes on, or ends as it did.
    void call(const ptx::Function &f, const std::string &arguments)
    {
        call(join("@\"f.", f.name, "\""), arguments);
    }
    void call(const V &callee, const std::string &arguments);

private:
    void append(std::string_view s) { code_ += s; }
    void append(unsigned n) { code_ += std::to_string(n); }
    void append(int n) { code_ += std::to_string(n); }
    V entry(std::string_view name, const std::string &text);
    std::string prologue();
    void lower(uint32_t index);
    void follow_loops(uint32_t index);
    V constant(const Operand &, Type);
    uint32_t shared_offset(const ptx::Variable &);
    V symbol_value(const Operand &);
    V read_register(const Operand &, Type);
    V parameters();  // of the kernel: a pointer
    Result<std::string> run_segment(uint32_t number);
    void enter_segment();
    void end_segment(const V &where);
    void bring(size_t offset, const V &value, unsigned bits);
    V lane_of(size_t offset, unsigned bits);
    V kept(uint32_t reg);
    std::string local_in_frame(size_t variable) const;
    V low_address(const Operand &, Space, unsigned bytes);
    void report_alignment();

    Unit &unit_;
    const ptx::Function &function_;
    const ptx::Body &body_;
    const Forms &forms_;
    std::vector<uint8_t> pointer_rank_, loop_;
    std::vector<Nest> nest_;  // where lanes ask who is with them
    std::vector<Congruence> congruences_;
    bool touches_memory_;
    const Segments *segments_ = nullptr;
    const Segment *segment_ = nullptr;  // the one at hand
    bool resumes_ = false;              // its cut is lowered, from the meeting on
    std::string code_, entry_;
    std::set<std::string, std::less<>> entered_;
    std::optional<Error> error_;
    const ptx::Instruction *in_ = nullptr;
    const Form *form_ = nullptr;
    bool open_ = true;  // the current block has no terminator yet
    bool in_loop_ = false;
    unsigned values_ = 0, blocks_ = 0, slots_ = 0;
};

}  // namespace rgpu::softgpu::lower
