// SPDX-License-Identifier: Apache-2.0
// PTX's tokens. They are views into the text, which must outlive them.
//
// A lexer never fails: what is no token comes as `bad`, and the parser says so with its line.
// Behind the end comes `end`, again and again.
#pragma once

#include <cstdint>
#include <string_view>

namespace rgpu::softgpu::ptx {

struct Token {
    enum Kind : uint8_t {
        end,
        word,    // identifier, directive, register or opcode: its dots and "::" are part of it
        number,  // integer or floating point, without a sign
        string,  // without its quotes
        punct,   // one character
        bad,     // a character that PTX does not have, or an open string or comment
    };
    Kind kind = end;
    std::string_view text;
    uint32_t line = 1;

    bool is(char c) const { return kind == punct && text[0] == c; }
    bool is(std::string_view w) const { return kind == word && text == w; }
};

// Splits text into tokens, one look-ahead.
class Lexer {
public:
    explicit Lexer(std::string_view text, uint32_t line = 1)
        : at_(text.data()), end_(text.data() + text.size()), line_(line)
    {
        advance();
    }
    const Token &peek() const { return token_; }
    Token take()
    {
        Token t = token_;
        advance();
        return t;
    }
    void advance();
    // Where the token after peek() will be looked for; for slices of the text.
    const char *position() const { return at_; }

private:
    bool skip_space();
    const char *at_, *end_;
    uint32_t line_;
    Token token_;
};

}  // namespace rgpu::softgpu::ptx
