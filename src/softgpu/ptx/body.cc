// SPDX-License-Identifier: Apache-2.0
// Statements: registers, variables, labels, instructions and their operands.
#include "softgpu/ptx/body.h"

#include <algorithm>

namespace rgpu::softgpu::ptx {

namespace {

// "%r12" is "%r" and 12; false without digits, or with a leading zero.
bool split(std::string_view name, std::string_view &prefix, uint32_t &number)
{
    size_t n = name.size();
    uint64_t value = 0, scale = 1;
    while (n > 0 && name[n - 1] >= '0' && name[n - 1] <= '9' && scale < 1000000000) {
        value += scale * static_cast<uint64_t>(name[n - 1] - '0');
        scale *= 10;
        --n;
    }
    if (n == name.size() || (name[n] == '0' && name.size() - n > 1)) return false;
    prefix = name.substr(0, n);
    number = static_cast<uint32_t>(value);
    return true;
}

}  // namespace

Result<void> BodyParser::parse(const Function &f)
{
    scopes_.emplace_back();
    for (auto *list : {&f.returns, &f.parameters})
        for (const Variable &v : *list) {
            if (v.space != Space::reg) continue;
            scopes_[0].registers[v.name] = static_cast<uint32_t>(body_.registers.size());
            body_.registers.push_back({v.type, 1});
        }
    if (!statements()) return grammar_.error();
    resolve_all();
    return {};
}

void BodyParser::bind(Function &f, const Body &)
{
    uint32_t n = 0;
    for (auto *list : {&f.returns, &f.parameters})
        for (Variable &v : *list)
            if (v.space == Space::reg) v.reg = n++;
}

bool BodyParser::statements()
{
    unsigned depth = 0;
    while (!grammar_.failed()) {
        const Token t = lex_.take();
        if (t.is('{')) {
            Scope s;
            s.parent = scope_;
            scope_ = static_cast<uint32_t>(scopes_.size());
            scopes_.push_back(std::move(s));
            ++depth;
        } else if (t.is('}')) {
            if (depth == 0) return true;
            --depth;
            scope_ = scopes_[scope_].parent;
        } else if (t.is(';')) {
            continue;
        } else if (t.is('@')) {
            if (!instruction(t)) return false;
        } else if (t.kind == Token::word && t.text[0] == '.') {
            if (!directive(t.text)) return false;
        } else if (t.kind == Token::word && lex_.peek().is(':')) {
            lex_.advance();
            if (!label_directive(t.text)) return false;
        } else if (t.kind == Token::word) {
            if (!instruction(t)) return false;
        } else {
            return grammar_.fail(ErrorKind::invalid,
                                 "statement expected before '" + std::string(t.text) + "'");
        }
    }
    return false;
}

// NAME: followed by a statement, or by one of the directives that need a name.
bool BodyParser::label_directive(std::string_view name)
{
    if (grammar_.accept(".callprototype")) {
        Prototype p;
        p.name = name;
        if (!grammar_.prototype(p)) return false;
        body_.prototypes.push_back(std::move(p));
        return true;
    }
    if (grammar_.accept(".branchtargets")) {
        LabelTable table;
        table.name = name;
        do {
            Operand o;
            if (!named(o)) return false;
            o.index = scope_;
            table.targets.push_back(o);
        } while (grammar_.accept(','));
        body_.tables.push_back(std::move(table));
        return grammar_.expect(';');
    }
    if (grammar_.accept(".calltargets")) {
        CallTable table;
        table.name = name;
        do
            if (!grammar_.word(table.functions.emplace_back(), "function")) return false;
        while (grammar_.accept(','));
        body_.call_tables.push_back(std::move(table));
        return grammar_.expect(';');
    }
    body_.labels.push_back({name, scope_, static_cast<uint32_t>(body_.instructions.size())});
    return true;
}

bool BodyParser::directive(std::string_view d)
{
    std::string_view glued = split_directive(d);
    if (d == ".reg") return declare_registers(glued);
    if (d == ".loc") {
        // .loc file line column [, function_name label, inlined_at file line column]: no semicolon.
        uint64_t n = 0;
        for (int i = 0; i < 3; ++i)
            if (!grammar_.integer(n)) return false;
        while (grammar_.accept(',')) {
            std::string_view w;
            if (!grammar_.word(w, "function_name")) return false;
            if (w == "function_name") {
                if (!grammar_.word(w, "label")) return false;
                if (grammar_.accept('+') && !grammar_.integer(n)) return false;
            } else {
                for (int i = 0; i < 3; ++i)
                    if (!grammar_.integer(n)) return false;
            }
        }
        return true;
    }
    if (d == ".pragma") return grammar_.skip_to(';');
    auto space = parse_space(d);
    if (!space) return grammar_.fail(ErrorKind::unsupported, "unknown directive " + std::string(d));
    Grammar::Decl decl;
    decl.space = *space;
    return grammar_.declaration_type(decl, glued) && declare(decl);
}

bool BodyParser::declare(const Grammar::Decl &decl)
{
    do {
        Variable v;
        if (!grammar_.declarator(decl, v)) return false;
        scopes_[scope_].variables[v.name] = static_cast<uint32_t>(body_.variables.size());
        body_.variables.push_back(std::move(v));
    } while (grammar_.accept(','));
    return grammar_.expect(';');
}

bool BodyParser::declare_registers(std::string_view glued)
{
    Grammar::Decl decl;
    decl.space = Space::reg;
    if (!grammar_.declaration_type(decl, glued)) return false;
    // A vector register is as many in a row, of which the first knows how many.
    const auto lanes = static_cast<uint8_t>(std::max<unsigned>(1, decl.vector));
    do {
        std::string_view name;
        if (!grammar_.word(name, "register")) return false;
        auto base = static_cast<uint32_t>(body_.registers.size());
        uint64_t count = 1;
        if (grammar_.accept('<')) {
            if (!grammar_.integer(count) || !grammar_.expect('>')) return false;
            if (count > 1000000) return grammar_.fail(ErrorKind::invalid, "too many registers");
            scopes_[scope_].ranges.push_back({name, base, static_cast<uint32_t>(count)});
        } else {
            scopes_[scope_].registers[name] = base;
        }
        for (uint64_t i = 0; i < count; ++i)
            for (uint8_t lane = 0; lane < lanes; ++lane)
                body_.registers.push_back({decl.type, lane ? uint8_t{1} : lanes});
    } while (grammar_.accept(','));
    return grammar_.expect(';');
}

bool BodyParser::instruction(const Token &first)
{
    Instruction in;
    in.line = first.line;
    Token opcode = first;
    if (first.is('@')) {
        in.predicate_negated = grammar_.accept('!');
        std::string_view name;
        uint32_t index = 0;
        if (!grammar_.word(name, "predicate")) return false;
        if (!find_register(name, index))
            return grammar_.fail(ErrorKind::invalid, "unknown predicate " + std::string(name));
        in.predicate = static_cast<int32_t>(index);
        opcode = lex_.take();
        if (opcode.kind != Token::word)
            return grammar_.fail(ErrorKind::invalid,
                                 "instruction expected before '" + std::string(opcode.text) + "'");
    }
    in.opcode = opcode.text;
    in.first = static_cast<uint32_t>(body_.operands.size());
    while (!grammar_.at(';')) {
        Operand o;
        if (!operand(o)) return false;
        body_.operands.push_back(o);
        if (o.kind == Operand::symbol)
            unresolved_.push_back(
                {static_cast<uint32_t>(body_.operands.size() - 1), false, scope_});
        if (!grammar_.accept(',')) break;
    }
    in.count = static_cast<uint32_t>(body_.operands.size()) - in.first;
    const char *end = lex_.peek().text.data();
    if (!grammar_.expect(';')) return false;
    in.text = std::string_view(first.text.data(), static_cast<size_t>(end - first.text.data()));
    body_.instructions.push_back(in);
    return true;
}

bool BodyParser::operand(Operand &o)
{
    if (grammar_.accept('!')) {
        if (!operand(o)) return false;
        o.negated = !o.negated;
        return true;
    }
    if (grammar_.accept('-')) {
        if (lex_.peek().kind != Token::word || lex_.peek().is("WARP_SZ"))
            return grammar_.literal(o, true);
        if (!named(o)) return false;
        o.minus = true;
        return o.kind == Operand::reg ||
               grammar_.fail(ErrorKind::invalid, "register expected behind a minus");
    }
    const Token &t = lex_.peek();
    if (t.is('{')) return group(o, Operand::vector, '}');
    if (t.is('(')) return group(o, Operand::list, ')');
    if (t.is('[')) return address(o);
    if (t.kind != Token::word || t.is("WARP_SZ")) return grammar_.literal(o);
    if (!named(o)) return false;
    if (grammar_.accept('|')) {
        Operand second;
        if (!named(second)) return false;
        Operand pair;
        pair.kind = Operand::pair;
        pair.index = static_cast<uint32_t>(body_.children.size());
        pair.count = 2;
        body_.children.push_back(o);
        body_.children.push_back(second);
        o = pair;
        return true;
    }
    return true;
}

// %v.x of a vector register; %r.b1 and the like, as video instructions select bytes and halves.
bool BodyParser::part_of_register(std::string_view w, Operand &o) const
{
    const size_t dot = w.rfind('.');
    uint32_t index = 0;
    if (dot == w.npos || dot + 1 == w.size() || !find_register(w.substr(0, dot), index))
        return false;
    const std::string_view part = w.substr(dot + 1);
    const uint32_t lanes = body_.registers[index].lanes;
    if (lanes > 1) {
        static constexpr std::string_view names[] = {"xyzw", "rgba"};
        for (std::string_view letters : names)
            if (size_t lane = letters.find(part[0]); part.size() == 1 && lane < lanes) {
                o.kind = Operand::reg;
                o.index = index + static_cast<uint32_t>(lane);
                return true;
            }
        return false;
    }
    if ((part[0] != 'b' && part[0] != 'h') || part.size() > 5 || part.size() < 2) return false;
    uint64_t digits = 0;
    for (char c : part.substr(1)) {
        if (c < '0' || c > '7') return false;
        digits = digits << 4 | static_cast<uint64_t>(c - '0');
    }
    o.kind = Operand::reg;
    o.index = index;
    o.value = uint64_t{static_cast<uint8_t>(part[0])} << 32 | (part.size() - 1) << 24 | digits;
    return true;
}

// A word: register, special register, variable or name, with + n.
bool BodyParser::named(Operand &o)
{
    std::string_view w;
    if (!grammar_.word(w, "operand")) return false;
    if (w == "_") {
        o.kind = Operand::sink;
        return true;
    }
    o.name = w;
    if (find_register(w, o.index)) {
        o.kind = Operand::reg;
        const uint32_t lanes = body_.registers[o.index].lanes;
        if (lanes == 1) return true;
        // All of a vector register.
        const auto children = static_cast<uint32_t>(body_.children.size());
        for (uint32_t i = 0; i < lanes; ++i) {
            Operand part;
            part.kind = Operand::reg;
            part.index = o.index + i;
            body_.children.push_back(part);
        }
        o.kind = Operand::vector;
        o.index = children;
        o.count = lanes;
        return true;
    }
    if (part_of_register(w, o)) return true;
    if (w[0] == '%') {
        o.kind = Operand::special;
        return true;
    }
    o.kind = Operand::symbol;
    for (uint32_t s = scope_;; s = scopes_[s].parent) {
        auto found = scopes_[s].variables.find(w);
        if (found != scopes_[s].variables.end()) {
            o.kind = Operand::variable;
            o.index = found->second;
            break;
        }
        if (s == 0) break;
    }
    if (grammar_.at('+') || grammar_.at('-')) {
        grammar_.accept('+');
        if (!grammar_.integer(o.value)) return false;
    }
    return true;
}

bool BodyParser::group(Operand &o, Operand::Kind kind, char close)
{
    lex_.advance();
    o.kind = kind;
    std::vector<Operand> members;
    while (!grammar_.at(close)) {
        Operand m;
        if (!operand(m)) return false;
        if (m.minus) return grammar_.fail(ErrorKind::invalid, "no minus can stand here");
        members.push_back(m);
        if (!grammar_.accept(',')) break;
    }
    if (!grammar_.expect(close)) return false;
    o.index = static_cast<uint32_t>(body_.children.size());
    o.count = static_cast<uint32_t>(members.size());
    for (const Operand &m : members) {
        if (m.kind == Operand::symbol)
            unresolved_.push_back({static_cast<uint32_t>(body_.children.size()), true, scope_});
        body_.children.push_back(m);
    }
    return true;
}

// [base], [base+n], [n], [name, {x, y}]
bool BodyParser::address(Operand &o)
{
    lex_.advance();
    o.kind = Operand::address;
    if (lex_.peek().kind != Token::word) {
        if (!grammar_.integer(o.value)) return false;
        return grammar_.expect(']');
    }
    Operand base;
    if (!named(base)) return false;
    if (base.kind == Operand::reg && (grammar_.at('+') || grammar_.at('-'))) {
        grammar_.accept('+');
        if (!grammar_.integer(o.value)) return false;
    }
    Operand coordinates;
    if (grammar_.accept(',')) {
        o.kind = Operand::list;
        if (!operand(coordinates)) return false;
    }
    o.index = static_cast<uint32_t>(body_.children.size());
    o.count = o.kind == Operand::list ? 2 : 1;
    if (base.kind == Operand::symbol) unresolved_.push_back({o.index, true, scope_});
    body_.children.push_back(base);
    if (o.count == 2) body_.children.push_back(coordinates);
    return grammar_.expect(']');
}

bool BodyParser::find_register(std::string_view name, uint32_t &index) const
{
    std::string_view prefix;
    uint32_t number = 0;
    bool numbered = split(name, prefix, number);
    for (uint32_t s = scope_;; s = scopes_[s].parent) {
        const Scope &scope = scopes_[s];
        if (numbered)
            for (const RegisterRange &r : scope.ranges)
                if (r.prefix == prefix && number < r.count) {
                    index = r.base + number * body_.registers[r.base].lanes;
                    return true;
                }
        if (!scope.registers.empty()) {
            auto found = scope.registers.find(name);
            if (found != scope.registers.end()) {
                index = found->second;
                return true;
            }
        }
        if (s == 0) return false;
    }
}

// A name is a label where one is in scope; labels may come after their use.
void BodyParser::resolve(Operand &o, uint32_t scope) const
{
    for (uint32_t s = scope;; s = scopes_[s].parent) {
        for (uint32_t i = 0; i < body_.labels.size(); ++i)
            if (body_.labels[i].scope == s && body_.labels[i].name == o.name) {
                o.kind = Operand::label;
                o.index = i;
                return;
            }
        if (s == 0) return;
    }
}

void BodyParser::resolve_all()
{
    std::unordered_map<std::string_view, uint32_t> outermost;
    for (uint32_t i = 0; i < body_.labels.size(); ++i)
        if (body_.labels[i].scope == 0) outermost.emplace(body_.labels[i].name, i);
    auto apply = [&](Operand &o, uint32_t scope) {
        if (scope != 0) {
            resolve(o, scope);
        } else if (auto found = outermost.find(o.name); found != outermost.end()) {
            o.kind = Operand::label;
            o.index = found->second;
        }
    };
    for (const Unresolved &u : unresolved_)
        apply(u.child ? body_.children[u.operand] : body_.operands[u.operand], u.scope);
    for (LabelTable &t : body_.tables)
        for (Operand &o : t.targets) apply(o, o.index);
}

}  // namespace rgpu::softgpu::ptx
