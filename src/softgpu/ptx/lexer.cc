// SPDX-License-Identifier: Apache-2.0
// Splits PTX text into tokens.
#include "softgpu/ptx/lexer.h"

#include <array>
#include <cstring>

namespace rgpu::softgpu::ptx {

namespace {

enum Class : uint8_t { other, space, newline, letter, digit, punctuation };

constexpr std::array<Class, 256> make_classes()
{
    std::array<Class, 256> c{};
    for (int i = 'a'; i <= 'z'; ++i) c[i] = letter;
    for (int i = 'A'; i <= 'Z'; ++i) c[i] = letter;
    for (int i = '0'; i <= '9'; ++i) c[i] = digit;
    for (char i : {'_', '$', '%', '.'}) c[static_cast<unsigned char>(i)] = letter;
    for (char i : {' ', '\t', '\r', '\f', '\v', '\0'}) c[static_cast<unsigned char>(i)] = space;
    for (char i : {',', ';', ':', '{', '}', '(', ')', '[', ']', '<', '>', '=',
                   '+', '-', '!', '|', '@', '*', '/', '&', '^', '~', '?'})
        c[static_cast<unsigned char>(i)] = punctuation;
    c['\n'] = newline;
    return c;
}

constexpr auto kClass = make_classes();

Class classify(char c) { return kClass[static_cast<unsigned char>(c)]; }

}  // namespace

// Skips blanks, comments and the preprocessor's line markers. False on an open comment.
bool Lexer::skip_space()
{
    while (at_ < end_) {
        Class c = classify(*at_);
        if (c == space) {
            ++at_;
        } else if (c == newline) {
            ++line_;
            ++at_;
        } else if ((*at_ == '/' && at_ + 1 < end_ && at_[1] == '/') || *at_ == '#') {
            const void *nl = memchr(at_, '\n', static_cast<size_t>(end_ - at_));
            at_ = nl ? static_cast<const char *>(nl) : end_;
        } else if (*at_ == '/' && at_ + 1 < end_ && at_[1] == '*') {
            std::string_view rest(at_ + 2, static_cast<size_t>(end_ - at_ - 2));
            size_t close = rest.find("*/");
            if (close == rest.npos) return false;
            for (char ch : rest.substr(0, close)) line_ += ch == '\n';
            at_ += close + 4;
        } else {
            return true;
        }
    }
    return true;
}

void Lexer::advance()
{
    if (!skip_space()) {
        token_ = {Token::bad, std::string_view(at_, 2), line_};
        at_ = end_;
        return;
    }
    token_.line = line_;
    if (at_ == end_) {
        token_.kind = Token::end;
        token_.text = {};
        return;
    }
    const char *start = at_;
    Class c = classify(*at_);
    if (c == letter) {
        token_.kind = Token::word;
        for (++at_; at_ < end_; ++at_) {
            Class k = classify(*at_);
            if (k == letter || k == digit) continue;
            if (*at_ == ':' && at_ + 2 < end_ && at_[1] == ':' &&
                (classify(at_[2]) == letter || classify(at_[2]) == digit)) {
                ++at_;
                continue;
            }
            break;
        }
    } else if (c == digit) {
        token_.kind = Token::number;
        bool hex = at_ + 1 < end_ && *at_ == '0' && at_[1] != '.';
        for (++at_; at_ < end_; ++at_) {
            Class k = classify(*at_);
            if (k == digit || (k == letter && *at_ != '%' && *at_ != '$' && *at_ != '_')) continue;
            bool exponent = !hex && (at_[-1] == 'e' || at_[-1] == 'E');
            if ((*at_ == '-' || *at_ == '+') && exponent) continue;
            break;
        }
    } else if (*at_ == '"') {
        const void *quote = memchr(at_ + 1, '"', static_cast<size_t>(end_ - at_ - 1));
        if (!quote) {
            token_.kind = Token::bad;
            token_.text = std::string_view(at_, 1);
            at_ = end_;
            return;
        }
        at_ = static_cast<const char *>(quote) + 1;
        token_.kind = Token::string;
        token_.text = std::string_view(start + 1, static_cast<size_t>(at_ - start - 2));
        for (char ch : token_.text) line_ += ch == '\n';
        return;
    } else {
        token_.kind = c == punctuation ? Token::punct : Token::bad;
        ++at_;
    }
    token_.text = std::string_view(start, static_cast<size_t>(at_ - start));
}

}  // namespace rgpu::softgpu::ptx
