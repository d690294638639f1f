// SPDX-License-Identifier: Apache-2.0
// Inside ptx/: parses what is between a function's braces.
//
// Names of registers and variables are resolved as they are read, by scopes as PTX has them; names
// of labels at the end, since they may be used before they are declared. The first error ends it.
#pragma once

#include <string_view>
#include <unordered_map>
#include <vector>

#include "softgpu/ptx/grammar.h"

namespace rgpu::softgpu::ptx {

class BodyParser {
public:
    BodyParser(Lexer &lex, Body &body) : lex_(lex), grammar_(lex), body_(body) {}

    // From after '{' to after its '}'. Registers of .reg parameters are declared first.
    Result<void> parse(const Function &);
    // Writes into f the registers that its .reg parameters and results got.
    static void bind(Function &f, const Body &);

private:
    struct RegisterRange {
        std::string_view prefix;
        uint32_t base, count;
    };
    // Between two braces; the function's own is the first.
    struct Scope {
        uint32_t parent = 0;
        std::vector<RegisterRange> ranges;
        std::unordered_map<std::string_view, uint32_t> registers, variables;
    };
    // A name that may be a label.
    struct Unresolved {
        uint32_t operand;
        bool child;
        uint32_t scope;
    };

    bool statements();
    bool directive(std::string_view word);
    bool declare(const Grammar::Decl &);
    bool declare_registers(std::string_view glued);
    bool label_directive(std::string_view label);
    bool instruction(const Token &first);
    bool operand(Operand &);
    bool named(Operand &);
    bool part_of_register(std::string_view, Operand &) const;
    bool group(Operand &, Operand::Kind, char close);
    bool address(Operand &);
    bool find_register(std::string_view name, uint32_t &index) const;
    void resolve(Operand &, uint32_t scope) const;
    void resolve_all();

    Lexer &lex_;
    Grammar grammar_;
    Body &body_;
    std::vector<Scope> scopes_;
    uint32_t scope_ = 0;
    std::vector<Unresolved> unresolved_;
};

}  // namespace rgpu::softgpu::ptx
