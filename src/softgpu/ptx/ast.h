// SPDX-License-Identifier: Apache-2.0
// What a PTX module says, as the parser leaves it. All names are views into the module's text,
// which must outlive them; nothing here points into a Body but its own indices.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "softgpu/compiler.h"
#include "softgpu/ptx/type.h"

namespace rgpu::softgpu::ptx {

enum class Space : uint8_t { none, reg, param, global, constant, shared, local };

// A variable of any space but .reg; also a parameter or returned value.
struct Variable {
    std::string_view name;
    Space space = Space::none;
    Type type;
    size_t size = 0, align = 1;  // bytes; size 0: `[]`, an open array
    Linkage linkage = Linkage::internal;
    bool managed = false;
    uint32_t reg = 0;   // of a .reg parameter: its register in the body
    size_t offset = 0;  // of a kernel's parameter: where it lies in the parameter block
    std::vector<uint8_t> init;
    std::vector<AddressInit> addresses;
    std::string_view text;  // its declaration
};

struct Register {
    Type type;
    uint8_t lanes = 1;  // of the first of a vector register's parts: how many
};

struct Operand {
    enum Kind : uint8_t {
        none,
        reg,       // index: the register; value: what a video instruction selects (body.cc), or 0
        special,   // name: %tid.x and so on
        integer,   // value
        float32,   // value: the bits
        float64,   // value: the bits; also a decimal literal
        symbol,    // name (+ value): of the module: a variable, function, or parameter
        variable,  // index (+ value): of Body::variables
        label,     // index: of Body::labels
        address,   // [first child + value], or [value] without children
        vector,    // {children}
        list,      // (children), or [name, {coordinates}]
        pair,      // child | child
        sink,      // _
    };
    Kind kind = none;
    bool negated = false;  // !p
    bool minus = false;    // -%r, which is for vmad
    uint32_t index = 0;
    uint32_t count = 0;  // children, from `index` on in Body::children
    uint64_t value = 0;
    std::string_view name;
};

struct Instruction {
    std::string_view opcode;  // with its modifiers
    std::string_view text;    // for messages
    uint32_t line = 0;
    uint32_t first = 0, count = 0;  // of Body::operands
    int32_t predicate = -1;         // register of @p
    bool predicate_negated = false;
};

// .callprototype: what an indirect call passes.
struct Prototype {
    std::string_view name;
    std::vector<Variable> returns, parameters;
};

struct Label {
    std::string_view name;
    uint32_t scope = 0;
    uint32_t instruction = 0;  // the one that follows
};

// .branchtargets: where a brx may go.
struct LabelTable {
    std::string_view name;
    std::vector<Operand> targets;
};

// .calltargets: whom an indirect call may reach.
struct CallTable {
    std::string_view name;
    std::vector<std::string_view> functions;
};

// What is between a function's braces. Operands and children lie in one array each, and are named
// by their index there.
struct Body {
    std::vector<Register> registers;
    std::vector<Variable> variables;  // .local, .shared, .param, .global declared inside
    std::vector<Instruction> instructions;
    std::vector<Operand> operands, children;
    std::vector<Label> labels;
    std::vector<LabelTable> tables;
    std::vector<Prototype> prototypes;
    std::vector<CallTable> call_tables;
};

// A kernel or device function; only one that is defined has text and body.
struct Function {
    std::string_view name;
    bool kernel = false, defined = false;
    Linkage linkage = Linkage::internal;
    std::vector<Variable> returns, parameters;
    size_t parameter_bytes = 0;  // of a kernel's parameter block
    Dim3 max_threads{0, 0, 0}, required_threads{0, 0, 0}, cluster{0, 0, 0};
    uint32_t max_registers = 0, min_blocks = 0;  // .maxnreg, .minnctapersm; 0 = none
    std::string_view text;                       // from its directive to its closing brace
    std::string_view body;                       // what is between the braces
    uint32_t body_line = 0;
};

// .alias: another name of a function.
struct Alias {
    std::string_view name, target;
};

// A whole module, without its bodies.
struct Module {
    int version = 0, target = 0;
    std::vector<Variable> variables;
    std::vector<Function> functions;
    std::vector<Alias> aliases;
    std::vector<std::string_view> address_taken;  // functions in initialisers
};

}  // namespace rgpu::softgpu::ptx
