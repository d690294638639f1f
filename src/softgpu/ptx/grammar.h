// SPDX-License-Identifier: Apache-2.0
// Inside ptx/: what the two halves of the parser (declarations, bodies) share.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include "softgpu/ptx/ast.h"
#include "softgpu/ptx/lexer.h"
#include "util/result.h"

namespace rgpu::softgpu::ptx {

// Carries the first error; every function returns false after it.
class Grammar {
public:
    explicit Grammar(Lexer &lex) : lex_(lex) {}

    const Token &peek() const { return lex_.peek(); }
    Token take() { return lex_.take(); }
    bool at(char c) const { return lex_.peek().is(c); }
    bool accept(char c)
    {
        if (!at(c)) return false;
        lex_.advance();
        return true;
    }
    bool accept(std::string_view w)
    {
        if (!lex_.peek().is(w)) return false;
        lex_.advance();
        return true;
    }
    bool expect(char c);
    bool word(std::string_view &out, const char *what);
    // [-] integer, with the suffix U.
    bool integer(uint64_t &out);
    // [-] integer or float into an operand.
    // `negative`: its minus was read already.
    bool literal(Operand &out, bool negative = false);

    // After .global, .shared and so on: attributes, alignment, type; then the declarators come.
    struct Decl {
        Space space = Space::none;
        Type type;
        unsigned vector = 1;
        size_t align = 0;
        Linkage linkage = Linkage::internal;
        bool managed = false;
    };
    // `glued`: what stood behind the directive without a blank (".b32" of ".reg.b32").
    bool declaration_type(Decl &, std::string_view glued = {});
    // NAME [dims] [= initialiser]
    bool declarator(const Decl &, Variable &);
    // (.param ..., ...)
    bool parameters(std::vector<Variable> &);
    bool parameter(Variable &);
    bool prototype(Prototype &);
    // Past the next ';' (line: past a directive that has none).
    bool skip_to(char c);

    bool fail(ErrorKind, const std::string &what);
    bool failed() const { return error_.has_value(); }
    Error error() { return *error_; }

private:
    bool declaration_word(Decl &, std::string_view word);
    bool initialiser(const Decl &, Variable &, size_t &offset);
    bool initial_value(const Decl &, Variable &, size_t &offset);
    bool initial_address(Variable &, size_t offset, size_t size);

    Lexer &lex_;
    std::optional<Error> error_;
};

// ".reg" and ".b32" of ".reg.b32".
std::string_view split_directive(std::string_view &directive);

std::optional<Space> parse_space(std::string_view directive);

// The number that a program sees as the address of device function `name`. Calls through it are
// dispatched by value: code of one kernel lives in an object of its own, so a real address would
// not be known when the module is loaded.
uint64_t function_address(std::string_view name);

}  // namespace rgpu::softgpu::ptx
