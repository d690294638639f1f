// Lowers one PTX function to LLVM IR text. The rows of the table write instructions through it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "softgpu/lower/table.h"
#include "softgpu/ptx/ast.h"
#include "util/result.h"

namespace rgpu::softgpu::lower {

using ptx::Operand;
using ptx::Space;

// The text of an LLVM value: "%v12", "42".
using V = std::string;

// What the functions of one kernel share while they are lowered.
struct Unit {
    bool per_thread = false;  // kind "thread" (abi.h)
    bool converges = false;   // it asks which lanes are together
    bool exits = false;       // a function of the kernel may end the thread
    bool parallel = false;    // the block's threads are iterations of a loop without dependences
    uint32_t sites = 0;       // numbers given to warp operations so far
    std::set<std::string, std::less<>> declarations;  // of what the kernel uses
    std::set<std::string, std::less<>> helpers;       // of prelude.cc
    std::set<std::string, std::less<>> globals;       // module variables used
    std::map<std::string_view, uint32_t> shared;      // offsets of .shared variables
    // Looks a name up in the module.
    struct Symbol {
        enum Kind { none, variable, function } kind = none;
        const ptx::Variable *variable_ = nullptr;
        const ptx::Function *function_ = nullptr;
    };
    virtual Symbol find(std::string_view name) const = 0;
    // The functions whose address the program can know and whose parameters are these.
    virtual std::vector<const ptx::Function *> targets(const ptx::Prototype &) const = 0;
    virtual ~Unit() = default;
};

// LLVM's name for a type's values: i32, float, <2 x half>; bf16 and tf32 are integers.
std::string ll(Type);
std::string ll_int(unsigned bits);
inline constexpr Type kPred{Type::pred, 1, 1}, kB8{Type::bits, 8, 1}, kB16{Type::bits, 16, 1},
    kB32{Type::bits, 32, 1}, kB64{Type::bits, 64, 1}, kB128{Type::bits, 128, 1},
    kU32{Type::uns, 32, 1}, kS32{Type::sgn, 32, 1}, kU64{Type::uns, 64, 1}, kS64{Type::sgn, 64, 1},
    kF16{Type::flt, 16, 1}, kF16x2{Type::flt, 16, 2}, kF32{Type::flt, 32, 1},
    kF64{Type::flt, 64, 1};
inline Type bits_of(Type t) { return Type{Type::bits, static_cast<uint16_t>(t.total()), 1}; }
inline Type with_width(Type t, unsigned w) { return Type{t.kind, static_cast<uint16_t>(w), 1}; }

struct Congruence;  // alignment.h

// Of an instruction: whether a natural loop begins there, or some have just ended, and how many are
// around it.
struct Nest {
    enum Kind : uint8_t { inside, header, behind } kind = inside;
    uint32_t depth = 0;  // of a header: without its own
};

class Lower {
public:
    Lower(Unit &unit, const ptx::Function &f, const ptx::Body &body);
    ~Lower();
    // The function's definition.
    Result<std::string> run();

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
    // alignment.cc
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
    // Calls a function of the module and goes on, or ends as it did.
    void call(const std::string &callee, const std::string &arguments);

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
    V low_address(const Operand &, Space, unsigned bytes);
    void report_alignment();

    Unit &unit_;
    const ptx::Function &function_;
    const ptx::Body &body_;
    std::vector<uint8_t> pointer_rank_, loop_;
    std::vector<Nest> nest_;  // where lanes ask who is with them
    std::vector<Congruence> congruences_;
    bool touches_memory_;
    std::string code_, entry_;
    std::set<std::string, std::less<>> entered_;
    std::optional<Error> error_;
    const ptx::Instruction *in_ = nullptr;
    const Form *form_ = nullptr;
    bool open_ = true;  // the current block has no terminator yet
    bool in_loop_ = false;
    unsigned values_ = 0, blocks_ = 0, slots_ = 0;
};

// For every register: 0 no pointer, 1 perhaps one, 2 a pointer. pointers.cc
std::vector<uint8_t> find_pointers(const ptx::Function &, const ptx::Body &);
// For every instruction: is it inside a loop. loops.cc
std::vector<uint8_t> find_loops(const ptx::Body &);
// The instructions that may come after one. loops.cc
void successors(const ptx::Body &, uint32_t instruction, std::vector<uint32_t> &out);
// The loops around every instruction. nest.cc
std::vector<Nest> find_nest(const ptx::Body &);
// Does anything in it read or write memory, other than parameters. alignment.cc
bool touches_memory(const ptx::Body &);
// True where a register operand is read by any instruction. loops.cc
bool is_read(const ptx::Body &, uint32_t reg);

// A special register by its name, with its type, or null where it is unknown.
struct Special {
    std::string_view name;
    Type type;
    V (*value)(Lower &);
};
const Special *find_special(std::string_view name);
// Where the %reserved_smem_offset_* point: a variable of the kernels that read them. Cooperative
// groups count on 288 bytes.
inline constexpr std::string_view kReservedSharedName = "%reserved_smem";
inline constexpr uint32_t kReservedShared = 320;

// The definitions of the named prelude functions and of those they call; adds what these need
// declared.
Result<std::string> prelude(const std::set<std::string, std::less<>> &names,
                            std::set<std::string, std::less<>> &declarations);

// Called device functions that the engine supplies (vprintf and so on).
struct External {
    std::string_view name;
    void (*lower)(Lower &, const std::vector<V> &returns, const std::vector<V> &parameters);
};
const External *find_external(std::string_view name);

inline std::string join() { return {}; }
template <class... Parts> std::string join(const Parts &...parts)
{
    std::string s;
    ((s += parts), ...);
    return s;
}

}  // namespace rgpu::softgpu::lower
