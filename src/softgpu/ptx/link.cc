// SPDX-License-Identifier: Apache-2.0
// Linking: several modules to the text of one. Names that a module keeps to itself are renamed
// where another module has them too; declarations stay, since a definition wins over them
// (lower/module.cc).
#include <map>
#include <set>
#include <string>
#include <vector>

#include "softgpu/compiler.h"
#include "softgpu/ptx/parser.h"

namespace rgpu::softgpu {

namespace {

using ptx::Lexer;
using ptx::Token;

struct Input {
    std::string_view text;
    ptx::Module module;
    std::set<std::string_view> own;      // defined here, visible here only
    std::set<std::string_view> defined;  // defined here for all
    std::set<std::string_view> weak;     // of those: one definition is enough
};

void sort_names(Input &in)
{
    auto add = [&](std::string_view name, Linkage linkage, bool defined) {
        if (!defined || linkage == Linkage::external) return;
        if (linkage == Linkage::internal) return void(in.own.insert(name));
        in.defined.insert(name);
        if (linkage != Linkage::visible) in.weak.insert(name);
    };
    for (const ptx::Variable &v : in.module.variables) add(v.name, v.linkage, true);
    // Kernels are for all; a function without .visible is this module's.
    for (const ptx::Function &f : in.module.functions)
        add(f.name, f.kernel && f.linkage == Linkage::internal ? Linkage::visible : f.linkage,
            f.defined);
}

// The text without its head, with names replaced.
std::string rewrite(std::string_view text, const std::map<std::string_view, std::string> &names)
{
    std::string out;
    const char *copied = text.data();
    Lexer lex(text);
    auto drop_until = [&](const char *from, unsigned tokens) {
        out.append(copied, static_cast<size_t>(from - copied));
        for (unsigned i = 0; i < tokens; ++i) lex.advance();
    };
    while (lex.peek().kind != Token::end && lex.peek().kind != Token::bad) {
        const Token t = lex.peek();
        if (t.is(".version") || t.is(".address_size")) {
            drop_until(t.text.data(), 2);
        } else if (t.is(".target")) {
            drop_until(t.text.data(), 2);
            while (lex.peek().is(',')) {
                lex.advance();
                lex.advance();
            }
        } else {
            auto found = t.kind == Token::word ? names.find(t.text) : names.end();
            lex.advance();
            if (found == names.end()) continue;
            out.append(copied, static_cast<size_t>(t.text.data() - copied));
            out += found->second;
            copied = t.text.data() + t.text.size();
            continue;
        }
        copied = lex.peek().kind == Token::end ? text.data() + text.size() : lex.peek().text.data();
    }
    out.append(copied, static_cast<size_t>(text.data() + text.size() - copied));
    return out + "\n";
}

}  // namespace

Result<std::string> PtxModule::link(const std::vector<std::string> &modules)
{
    std::vector<Input> inputs(modules.size());
    std::map<std::string_view, unsigned> uses;  // in how many modules a name is known
    std::map<std::string_view, bool> defined;   // by a strong definition
    int version = 0, target = 0;
    for (size_t i = 0; i < modules.size(); ++i) {
        Input &in = inputs[i];
        in.text = modules[i];
        while (!in.text.empty() && in.text.back() == '\0') in.text.remove_suffix(1);
        auto parsed = ptx::parse_module(
            in.text, [](const ptx::Function &, const ptx::Body &) { return Result<void>{}; });
        if (!parsed) return std::move(parsed).error().in("module " + std::to_string(i + 1));
        in.module = std::move(parsed).value();
        sort_names(in);
        version = std::max(version, in.module.version);
        target = std::max(target, in.module.target);
        std::set<std::string_view> known;
        for (const ptx::Variable &v : in.module.variables) known.insert(v.name);
        for (const ptx::Function &f : in.module.functions) known.insert(f.name);
        for (std::string_view name : known) ++uses[name];
        for (std::string_view name : in.defined) {
            bool strong = !in.weak.contains(name);
            if (strong && defined[name])
                return error(ErrorKind::invalid, "%s is defined by more than one module",
                             std::string(name).c_str());
            defined[name] |= strong;
        }
    }
    std::string out = ".version " + std::to_string(version / 10) + "." +
                      std::to_string(version % 10) + "\n.target sm_" + std::to_string(target) +
                      "\n.address_size 64\n";
    for (size_t i = 0; i < inputs.size(); ++i) {
        std::map<std::string_view, std::string> names;
        for (std::string_view name : inputs[i].own)
            if (uses[name] > 1) names[name] = std::string(name) + "$m" + std::to_string(i + 1);
        out += rewrite(inputs[i].text, names);
    }
    return out;
}

}  // namespace rgpu::softgpu
