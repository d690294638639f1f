// SPDX-License-Identifier: Apache-2.0
// Module level: directives, variables, functions.
#include "softgpu/ptx/parser.h"

#include <algorithm>

#include "softgpu/ptx/body.h"
#include "softgpu/ptx/grammar.h"

namespace rgpu::softgpu::ptx {

namespace {

class ModuleParser {
public:
    ModuleParser(std::string_view text, const BodyVisitor &visit)
        : lex_(text), grammar_(lex_), visit_(visit)
    {}

    Result<Module> parse()
    {
        while (!grammar_.failed() && !error_ && lex_.peek().kind != Token::end) {
            const char *start = lex_.peek().text.data();
            const Token t = lex_.take();
            if (t.kind != Token::word || t.text[0] != '.') {
                if (t.is(';')) continue;
                grammar_.fail(ErrorKind::invalid,
                              "directive expected before '" + std::string(t.text) + "'");
                break;
            }
            directive(t, start);
        }
        if (error_) return *error_;
        if (grammar_.failed()) return grammar_.error();
        if (module_.version == 0)
            return rgpu::error(ErrorKind::invalid, "not PTX: no .version directive");
        resolve_function_addresses();
        return std::move(module_);
    }

private:
    bool directive(const Token &t, const char *start)
    {
        if (t.text == ".version") return version();
        if (t.text == ".target") return target();
        if (t.text == ".address_size") {
            uint64_t n = 0;
            if (!grammar_.integer(n)) return false;
            return n == 64 ||
                   grammar_.fail(ErrorKind::unsupported, ".address_size " + std::to_string(n));
        }
        if (t.text == ".file") return file();
        if (t.text == ".section") return section();
        if (t.text == ".pragma") return grammar_.skip_to(';');
        if (t.text == ".alias") {
            Alias a;
            if (!grammar_.word(a.name, "name") || !grammar_.expect(',') ||
                !grammar_.word(a.target, "name"))
                return false;
            module_.aliases.push_back(a);
            return grammar_.expect(';');
        }
        Linkage linkage = Linkage::internal;
        std::string_view d = t.text;
        for (;;) {
            if (d == ".visible")
                linkage = Linkage::visible;
            else if (d == ".extern")
                linkage = Linkage::external;
            else if (d == ".weak")
                linkage = Linkage::weak;
            else if (d == ".common")
                linkage = Linkage::common;
            else
                break;
            if (!grammar_.word(d, "directive")) return false;
        }
        if (d == ".entry" || d == ".func") return function(d == ".entry", linkage, start);
        if (auto space = parse_space(d)) return variable(*space, linkage, start);
        if (d == ".attribute") {
            // .attribute(.unified(..)) in front of a function or variable: a hint.
            return grammar_.expect('(') && grammar_.skip_to(')');
        }
        return grammar_.fail(ErrorKind::unsupported, "unknown directive " + std::string(d));
    }

    bool version()
    {
        std::string_view v = lex_.take().text;
        size_t dot = v.find('.');
        int major = 0, minor = 0;
        if (dot == v.npos || std::from_chars(v.data(), v.data() + dot, major).ec != std::errc{} ||
            std::from_chars(v.data() + dot + 1, v.data() + v.size(), minor).ec != std::errc{} ||
            major < 0 || minor < 0)
            return grammar_.fail(ErrorKind::invalid, "bad .version " + std::string(v));
        if (major > 9 || minor > 9)
            return grammar_.fail(ErrorKind::unsupported,
                                 "PTX version " + std::string(v) + " is newer than this driver");
        module_.version = major * 10 + minor;
        return true;
    }

    bool target()
    {
        do {
            std::string_view t;
            if (!grammar_.word(t, "target")) return false;
            if (t.substr(0, 3) == "sm_") {
                auto [end, ec] = std::from_chars(t.data() + 3, t.data() + t.size(), module_.target);
                if (ec != std::errc{})
                    return grammar_.fail(ErrorKind::invalid, "bad .target " + std::string(t));
                (void)end;
            }
        } while (grammar_.accept(','));
        return true;
    }

    // .file N "name" [, time, size]
    bool file()
    {
        uint64_t n = 0;
        if (!grammar_.integer(n)) return false;
        if (lex_.peek().kind != Token::string)
            return grammar_.fail(ErrorKind::invalid, "file name expected");
        lex_.advance();
        while (grammar_.accept(','))
            if (!grammar_.integer(n)) return false;
        return true;
    }

    // .section .debug_x { ... }: debug information, no use here.
    bool section()
    {
        std::string_view name;
        if (!grammar_.word(name, "section") || !grammar_.expect('{')) return false;
        return grammar_.skip_to('}');
    }

    bool variable(Space space, Linkage linkage, const char *start)
    {
        Grammar::Decl decl;
        decl.space = space;
        decl.linkage = linkage;
        if (!grammar_.declaration_type(decl)) return false;
        do {
            Variable v;
            if (!grammar_.declarator(decl, v)) return false;
            v.text = std::string_view(start, static_cast<size_t>(lex_.peek().text.data() - start));
            module_.variables.push_back(std::move(v));
        } while (grammar_.accept(','));
        return grammar_.expect(';');
    }

    bool limits(Dim3 &d)
    {
        uint32_t *parts[] = {&d.x, &d.y, &d.z};
        d = {1, 1, 1};
        for (uint32_t *p : parts) {
            uint64_t n = 0;
            if (!grammar_.integer(n)) return false;
            *p = static_cast<uint32_t>(n);
            if (!grammar_.accept(',')) break;
        }
        return true;
    }

    // Between the parameters and the body.
    bool attributes(Function &f)
    {
        while (lex_.peek().kind == Token::word) {
            std::string_view d = lex_.take().text;
            Dim3 ignored;
            if (d == ".maxntid") {
                if (!limits(f.max_threads)) return false;
            } else if (d == ".reqntid") {
                if (!limits(f.required_threads)) return false;
            } else if (d == ".maxnreg") {
                if (!limits(ignored)) return false;
                f.max_registers = f.max_registers ? std::min(f.max_registers, ignored.x)
                                                  : ignored.x;
            } else if (d == ".minnctapersm") {
                if (!limits(ignored)) return false;
                f.min_blocks = ignored.x;
            } else if (d == ".reqnctapercluster") {
                if (!limits(f.cluster)) return false;
            } else if (d == ".maxnctapersm" || d == ".maxclusterrank" || d == ".abi_preserve" ||
                       d == ".abi_preserve_control") {
                if (!limits(ignored)) return false;
            } else if (d == ".attribute") {
                if (!grammar_.expect('(') || !grammar_.skip_to(')')) return false;
            } else if (d == ".pragma") {
                if (!grammar_.skip_to(';')) return false;
            } else if (d != ".noreturn" && d != ".explicitcluster" && d != ".blocksareclusters") {
                return grammar_.fail(ErrorKind::unsupported, "unknown directive " + std::string(d));
            }
        }
        return true;
    }

    // The parameter block: each at the next multiple of its alignment.
    static void lay_out_parameters(Function &kernel)
    {
        size_t at = 0;
        for (Variable &p : kernel.parameters) {
            const size_t align = std::max<size_t>(p.align, 1);
            p.offset = (at + align - 1) / align * align;
            at = p.offset + p.size;
        }
        kernel.parameter_bytes = at;
    }

    bool function(bool kernel, Linkage linkage, const char *start)
    {
        Function f;
        f.kernel = kernel;
        f.linkage = linkage;
        if (grammar_.accept(".attribute") && !(grammar_.expect('(') && grammar_.skip_to(')')))
            return false;
        if (grammar_.at('(') && !grammar_.parameters(f.returns)) return false;
        if (!grammar_.word(f.name, "function name")) return false;
        if (grammar_.at('(') && !grammar_.parameters(f.parameters)) return false;
        if (kernel) lay_out_parameters(f);
        if (!attributes(f)) return false;
        if (grammar_.accept(';')) {
            module_.functions.push_back(std::move(f));
            return true;
        }
        if (!grammar_.at('{')) return grammar_.expect('{');
        f.defined = true;
        f.body_line = lex_.peek().line;
        const char *body_start = lex_.peek().text.data() + 1;
        lex_.advance();
        scratch_ = Body{};
        BodyParser parser(lex_, scratch_);
        auto parsed = parser.parse(f);
        if (!parsed) {
            error_ = std::move(parsed).error().in(std::string(f.name));
            return false;
        }
        BodyParser::bind(f, scratch_);
        f.body = std::string_view(body_start, body_length(body_start));
        f.text =
            std::string_view(start, static_cast<size_t>(f.body.data() + f.body.size() - start));
        if (auto ok = visit_(f, scratch_); !ok) {
            error_ = std::move(ok).error().in(std::string(f.name));
            return false;
        }
        module_.functions.push_back(std::move(f));
        return true;
    }

    // The look-ahead token stands after the closing brace: the body ends at that brace.
    size_t body_length(const char *start)
    {
        const char *end = lex_.peek().kind == Token::end ? lex_.position()
                                                         : lex_.peek().text.data();
        while (end > start && end[-1] != '}') --end;
        return static_cast<size_t>(end - start);
    }

    // Addresses of functions are numbers known here (grammar.h), not relocations.
    void resolve_function_addresses()
    {
        for (Variable &v : module_.variables) {
            std::vector<AddressInit> rest;
            for (AddressInit &a : v.addresses) {
                const Function *target = nullptr;
                for (const Function &f : module_.functions)
                    if (f.name == a.symbol) target = &f;
                if (!target) {
                    rest.push_back(std::move(a));
                    continue;
                }
                uint64_t value =
                    (function_address(target->name) + static_cast<uint64_t>(a.addend)) >> a.shift;
                for (size_t i = 0; i < a.size; ++i)
                    v.init[a.offset + i] = static_cast<uint8_t>(value >> (8 * i));
                taken_.push_back(target->name);
            }
            v.addresses = std::move(rest);
        }
        module_.address_taken = std::move(taken_);
    }

    Lexer lex_;
    Grammar grammar_;
    const BodyVisitor &visit_;
    Module module_;
    Body scratch_;
    std::vector<std::string_view> taken_;
    std::optional<Error> error_;
};

}  // namespace

Result<Module> parse_module(std::string_view text, const BodyVisitor &visit)
{
    // Programs pass their terminating zero along.
    while (!text.empty() && text.back() == '\0') text.remove_suffix(1);
    return ModuleParser(text, visit).parse();
}

Result<Body> parse_body(const Function &f)
{
    Lexer lex(f.body, f.body_line);
    Body body;
    BodyParser parser(lex, body);
    auto parsed = parser.parse(f);
    if (!parsed) return std::move(parsed).error();
    return body;
}

}  // namespace rgpu::softgpu::ptx
