// SPDX-License-Identifier: Apache-2.0
// Declarations, initialisers, literals.
#include "softgpu/ptx/grammar.h"

#include <bit>
#include <cstdlib>
#include <cstring>

namespace rgpu::softgpu::ptx {

namespace {

// Integer literal of PTX: 0x, 0b, octal, decimal, suffix U.
bool parse_integer(std::string_view text, uint64_t &value)
{
    if (!text.empty() && (text.back() == 'U' || text.back() == 'u')) text.remove_suffix(1);
    int base = 10;
    if (text.size() > 1 && text[0] == '0') {
        char c = text[1];
        if (c == 'x' || c == 'X')
            base = 16;
        else if (c == 'b' || c == 'B')
            base = 2;
        else
            base = 8;
        text.remove_prefix(base == 8 ? 1 : 2);
    }
    auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    return ec == std::errc{} && end == text.data() + text.size();
}

bool parse_hex(std::string_view text, uint64_t &value)
{
    auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
    return ec == std::errc{} && end == text.data() + text.size();
}

// 0f/0d bits, or a decimal floating-point literal.
bool parse_float(std::string_view text, Operand &out)
{
    if (text.size() == 10 && text[0] == '0' && (text[1] | 32) == 'f') {
        out.kind = Operand::float32;
        return parse_hex(text.substr(2), out.value);
    }
    if (text.size() == 18 && text[0] == '0' && (text[1] | 32) == 'd') {
        out.kind = Operand::float64;
        return parse_hex(text.substr(2), out.value);
    }
    if (text.find_first_of(".eE") == text.npos || text.find_first_of("xX") != text.npos)
        return false;
    double d = 0;
    auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), d);
    out.kind = Operand::float64;
    out.value = std::bit_cast<uint64_t>(d);
    return ec == std::errc{} && end == text.data() + text.size();
}

void put(std::vector<uint8_t> &bytes, size_t offset, uint64_t value, size_t size)
{
    if (bytes.size() < offset + size) bytes.resize(offset + size);
    memcpy(&bytes[offset], &value, size < 8 ? size : 8);
}

}  // namespace

std::string_view split_directive(std::string_view &directive)
{
    size_t dot = directive.find('.', 1);
    if (dot == directive.npos) return {};
    std::string_view rest = directive.substr(dot);
    directive = directive.substr(0, dot);
    return rest;
}

std::optional<Space> parse_space(std::string_view d)
{
    if (d == ".reg") return Space::reg;
    if (d == ".param") return Space::param;
    if (d == ".global") return Space::global;
    if (d == ".const") return Space::constant;
    if (d == ".shared") return Space::shared;
    if (d == ".local") return Space::local;
    return std::nullopt;
}

uint64_t function_address(std::string_view name)
{
    uint64_t h = 0xcbf29ce484222325;
    for (unsigned char c : name) h = (h ^ c) * 0x100000001b3;
    return (h >> 16 << 4) | uint64_t{0x7F} << 56;  // non-canonical: a load through it faults
}

bool Grammar::fail(ErrorKind kind, const std::string &what)
{
    if (!error_) error_ = Error{kind, "PTX line " + std::to_string(peek().line) + ": " + what};
    return false;
}

bool Grammar::expect(char c)
{
    if (accept(c)) return true;
    return fail(ErrorKind::invalid,
                std::string("'") + c + "' expected before '" + std::string(peek().text) + "'");
}

bool Grammar::word(std::string_view &out, const char *what)
{
    if (peek().kind != Token::word)
        return fail(ErrorKind::invalid,
                    std::string(what) + " expected before '" + std::string(peek().text) + "'");
    out = take().text;
    return true;
}

bool Grammar::integer(uint64_t &out)
{
    bool negative = accept('-');
    if (peek().is("WARP_SZ")) {
        out = 32;
    } else if (peek().kind != Token::number || !parse_integer(peek().text, out)) {
        return fail(ErrorKind::invalid,
                    "integer expected before '" + std::string(peek().text) + "'");
    }
    take();
    if (negative) out = -out;
    return true;
}

bool Grammar::literal(Operand &out, bool negative)
{
    if (!negative) negative = accept('-');
    if (!negative) accept('+');
    std::string_view text = peek().text;
    if (peek().is("WARP_SZ")) {
        out.kind = Operand::integer;
        out.value = negative ? -uint64_t{32} : 32;
    } else if (peek().kind == Token::number && parse_integer(text, out.value)) {
        out.kind = Operand::integer;
        if (negative) out.value = -out.value;
    } else if (peek().kind == Token::number && parse_float(text, out)) {
        if (negative) out.value ^= uint64_t{1} << (out.kind == Operand::float32 ? 31 : 63);
    } else {
        return fail(ErrorKind::invalid, "number expected before '" + std::string(text) + "'");
    }
    take();
    return true;
}

bool Grammar::skip_to(char c)
{
    while (!at(c)) {
        if (peek().kind == Token::end)
            return fail(ErrorKind::invalid, "the text ends inside a directive");
        take();
    }
    return expect(c);
}

bool Grammar::declaration_word(Decl &d, std::string_view t)
{
    if (t == ".align") {
        uint64_t n = 0;
        if (!integer(n)) return false;
        if (n == 0 || (n & (n - 1)) || n > 4096) return fail(ErrorKind::invalid, "bad alignment");
        d.align = n;
    } else if (t == ".attribute") {
        if (!expect('(')) return false;
        if (peek().is(".managed")) d.managed = true;
        return skip_to(')');
    } else if (t == ".ptr") {
        // What a kernel's pointer parameter points to: .ptr [.space] [.align N]; a hint.
        while (peek().kind == Token::word && peek().text[0] == '.') {
            uint64_t n = 0;
            if (take().text == ".align" && !integer(n)) return false;
        }
    } else if (t == ".v2" || t == ".v4" || t == ".v8") {
        d.vector = static_cast<unsigned>(t[2] - '0');
    } else if (Type type = parse_type(t.substr(1))) {
        d.type = type;
    } else if (t != ".noalias" && t != ".volatile") {
        return fail(ErrorKind::unsupported,
                    "unknown directive " + std::string(t) + " in a declaration");
    }
    return true;
}

bool Grammar::declaration_type(Decl &d, std::string_view glued)
{
    while (!glued.empty() || (peek().kind == Token::word && peek().text[0] == '.')) {
        std::string_view t = glued.empty() ? take().text : glued;
        glued = split_directive(t);
        if (!declaration_word(d, t)) return false;
    }
    if (!d.type) return fail(ErrorKind::invalid, "a declaration without a type");
    if (d.align == 0) d.align = size_t{d.type.bytes()} * d.vector;
    return true;
}

bool Grammar::declarator(const Decl &d, Variable &v)
{
    v.space = d.space;
    v.type = d.type;
    v.linkage = d.linkage;
    v.managed = d.managed;
    v.align = d.align;
    v.size = size_t{d.type.bytes()} * d.vector;
    if (!word(v.name, "name")) return false;
    bool open = false;
    while (accept('[')) {
        uint64_t n = 0;
        if (at(']'))
            open = true;
        else if (!integer(n))
            return false;
        if (!expect(']')) return false;
        if (!open && (n > (uint64_t{1} << 40) / (v.size ? v.size : 1)))
            return fail(ErrorKind::invalid, "variable " + std::string(v.name) + " is too large");
        if (!open || n) v.size *= n;
    }
    size_t element = v.size;
    if (open) v.size = 0;
    if (accept('=')) {
        size_t offset = 0;
        if (!initialiser(d, v, offset)) return false;
        if (open) v.size = (offset + element - 1) / element * element;
        if (offset > v.size)
            return fail(ErrorKind::invalid, "too many initialisers for " + std::string(v.name));
    }
    return true;
}

bool Grammar::initialiser(const Decl &d, Variable &v, size_t &offset)
{
    if (!accept('{')) return initial_value(d, v, offset);
    while (!at('}')) {
        if (!initialiser(d, v, offset)) return false;
        if (!accept(',')) break;
    }
    return expect('}');
}

bool Grammar::initial_value(const Decl &d, Variable &v, size_t &offset)
{
    size_t size = d.type.bytes();
    if (peek().kind == Token::word && !peek().is("WARP_SZ")) {
        if (!initial_address(v, offset, size)) return false;
    } else {
        // 0xFF(symbol) selects one byte of an address.
        Operand value;
        if (!literal(value)) return false;
        if (value.kind == Operand::integer && accept('(')) {
            if (!value.value) return fail(ErrorKind::invalid, "empty mask");
            unsigned shift = static_cast<unsigned>(std::countr_zero(value.value));
            if (!initial_address(v, offset, size) || !expect(')')) return false;
            v.addresses.back().shift = shift;
        } else {
            uint64_t bits = value.value;
            if (d.type.kind == Type::flt && d.type.width == 32 && value.kind == Operand::float64)
                bits = std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(bits)));
            put(v.init, offset, bits, size);
        }
    }
    offset += size;
    return true;
}

// symbol, symbol+n, generic(symbol)+n
bool Grammar::initial_address(Variable &v, size_t offset, size_t size)
{
    bool generic = accept("generic") && expect('(');
    AddressInit a;
    a.offset = offset;
    a.size = size < 8 ? size : 8;
    std::string_view symbol;
    if (!word(symbol, "symbol")) return false;
    a.symbol = symbol;
    auto addend = [&] {
        uint64_t n = 0;
        bool minus = at('-');
        if (!minus && !accept('+')) return true;
        if (!integer(n)) return false;
        a.addend += static_cast<int64_t>(n);
        return true;
    };
    if (!addend()) return false;
    if (generic && !expect(')')) return false;
    if (generic && !addend()) return false;
    put(v.init, offset, 0, 8);
    v.init.resize(offset + size);
    v.addresses.push_back(std::move(a));
    return true;
}

bool Grammar::parameter(Variable &v)
{
    std::string_view directive;
    if (!word(directive, "parameter")) return false;
    auto space = parse_space(directive);
    if (!space)
        return fail(ErrorKind::invalid, "parameter expected before " + std::string(directive));
    Decl d;
    d.space = *space;
    if (!declaration_type(d)) return false;
    return declarator(d, v);
}

bool Grammar::parameters(std::vector<Variable> &list)
{
    if (!expect('(')) return false;
    while (!at(')')) {
        Variable v;
        if (!parameter(v)) return false;
        list.push_back(std::move(v));
        if (!accept(',')) break;
    }
    return expect(')');
}

// After .callprototype: [(returns)] _ (parameters) [attributes] ;
bool Grammar::prototype(Prototype &p)
{
    if (at('(') && !parameters(p.returns)) return false;
    std::string_view underscore;
    if (!word(underscore, "_")) return false;
    if (at('(') && !parameters(p.parameters)) return false;
    return skip_to(';');
}

}  // namespace rgpu::softgpu::ptx
