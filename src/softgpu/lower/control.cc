// SPDX-License-Identifier: Apache-2.0
// Branches, calls, returns, fences.
#include <algorithm>
#include <cstdio>

#include "softgpu/lower/external.h"
#include "softgpu/lower/lower.h"
#include "softgpu/lower/module.h"
#include "softgpu/ptx/grammar.h"

namespace rgpu::softgpu::lower {

namespace {

void bra(Lower &l)
{
    const Operand &o = l.operand(0);
    if (o.kind != Operand::label) return l.fail("unknown label");
    l.jump(l.label(o));
}

void brx(Lower &l)
{
    V index = l.get(0, kB32);
    const Operand &o = l.operand(1);
    for (const ptx::LabelTable &t : l.body().tables) {
        if (t.name != o.name) continue;
        std::string other = l.block(), cases;
        for (size_t i = 0; i < t.targets.size(); ++i)
            cases += join(" i32 ", std::to_string(i), ", label %", l.label(t.targets[i]));
        l.emit("switch i32 ", index, ", label %", other, " [", cases, " ]");
        // An index past the table is undefined.
        l.place_after_terminator(other);
        return l.unreachable();
    }
    l.fail("unknown table of labels");
}

void ret(Lower &l) { l.return_(); }

// Ends the thread.
void exit_(Lower &l) { l.return_(true); }

void trap(Lower &l)
{
    l.name_thread();
    l.runtime("void", "rt_trap", "ptr", "ptr " + l.block_state(), "noreturn nounwind cold");
    l.unreachable();
}

// What no row of the table is for.
void unknown(Lower &l)
{
    const std::string text = refuse(l.instruction(), kUnknown).text;
    std::string bytes;
    for (const unsigned char c : text) {
        char hex[4];
        snprintf(hex, sizeof hex, "\\%02X", c);
        bytes += hex;
    }
    const std::string name = "@t." + std::to_string(l.unit().constants.size());
    l.unit().constants.insert(join(name, " = private constant [", std::to_string(text.size() + 1),
                                   " x i8] c\"", bytes, "\\00\""));
    l.name_thread();
    l.runtime("void", "rt_unknown", "ptr, ptr", join("ptr ", l.block_state(), ", ptr ", name),
              "noreturn nounwind cold");
    l.unreachable();
}

void nothing(Lower &) {}

void nanosleep(Lower &l)
{
    V ns = l.get(0, kU32);
    if (l.unit().per_thread)
        l.runtime("void", "rt_nanosleep", "ptr, i32", join("ptr ", l.thread(), ", i32 ", ns));
}

void fence(Lower &l)
{
    l.emit(l.has("acquire")   ? "fence acquire"
           : l.has("release") ? "fence release"
           : l.has("acq_rel") ? "fence acq_rel"
                              : "fence seq_cst");
    l.yield();
}

class Call {
public:
    explicit Call(Lower &l) : l_(l) {}

    // call [(returns),] callee [, (parameters)] [, prototype];
    void lower()
    {
        unsigned at = 0;
        if (l_.operand(0).kind == Operand::list) returns_ = &l_.operand(at++);
        if (at >= l_.operands()) return l_.fail("no function to call");
        callee_ = &l_.operand(at++);
        if (at < l_.operands() && l_.operand(at).kind == Operand::list)
            parameters_ = &l_.operand(at++);
        if (at < l_.operands()) prototype_ = l_.operand(at).name;
        if (callee_->kind == Operand::reg) return indirect();
        auto symbol = l_.unit().find(callee_->name);
        if (symbol.kind != Unit::Symbol::function) return l_.fail("unknown function");
        const ptx::Function &f = *symbol.function_;
        if (!match(f.returns, f.parameters)) return;
        if (!f.defined) {
            const External *external = find_external(f.name);
            if (!external)
                return l_.fail("function " + std::string(f.name) + " is defined nowhere");
            external->lower(l_, out_, in_);
        } else {
            l_.call(f, arguments());
        }
        fetch(f.returns);
    }

private:
    // A place in memory for everything passed: parameter variables have one, registers get one.
    V place(const Operand &o, const ptx::Variable &formal, bool input)
    {
        if (o.kind == Operand::variable && l_.body().variables[o.index].space == Space::param) {
            size_t have = l_.body().variables[o.index].size;
            if (have < formal.size) l_.fail("argument " + std::string(o.name) + " is too small");
            return l_.variable_slot(o.index);
        }
        // A parameter of the calling function, passed on.
        if (o.kind == Operand::symbol && l_.variable(o) && l_.variable(o)->space == Space::param)
            return l_.pointer(o);
        Type t = formal.type.kind == Type::pred ? kPred : bits_of(formal.type);
        V slot = l_.slot(ll(t));
        if (input) l_.emit("store ", ll(t), " ", l_.read(o, t), ", ptr ", slot);
        return slot;
    }

    bool match(const std::vector<ptx::Variable> &returns,
               const std::vector<ptx::Variable> &parameters)
    {
        unsigned n_out = returns_ ? returns_->count : 0,
                 n_in = parameters_ ? parameters_->count : 0;
        // As in C: a caller that expects a result of a function that has none gets anything, and
        // one that expects none leaves it (numba declares functions that return void with a
        // result).
        if (n_in != parameters.size()) {
            l_.fail("another number of arguments than the function has");
            return false;
        }
        for (unsigned i = 0; i < returns.size(); ++i)
            out_.push_back(i < n_out
                               ? place(l_.child(*returns_, i), returns[i], false)
                               : l_.slot(join("[", std::to_string(returns[i].size), " x i8]")));
        taken_ = std::min<size_t>(n_out, returns.size());
        for (unsigned i = 0; i < n_in; ++i)
            in_.push_back(place(l_.child(*parameters_, i), parameters[i], true));
        return true;
    }

    std::string arguments() const
    {
        std::string s = "ptr " + l_.thread();
        for (const V &v : out_) s += ", ptr " + v;
        for (const V &v : in_) s += ", ptr " + v;
        return s;
    }

    // Values returned into registers.
    void fetch(const std::vector<ptx::Variable> &returns)
    {
        for (unsigned i = 0; i < taken_; ++i) {
            const Operand &o = l_.child(*returns_, i);
            if (o.kind != Operand::reg) continue;
            Type t = bits_of(returns[i].type);
            l_.write(o, l_.def("load ", ll(t), ", ptr ", out_[i]), t);
        }
    }

    struct Choice {
        const std::vector<ptx::Variable> *returns = nullptr, *parameters = nullptr;
        std::vector<const ptx::Function *> functions;
        bool late = false;  // any that the program gives, by rt_function
    };

    // The last operand names a prototype or a list of functions.
    Choice choice()
    {
        Choice c;
        for (const ptx::Prototype &p : l_.body().prototypes)
            if (p.name == prototype_)
                return l_.unit().late ? Choice{&p.returns, &p.parameters, {}, true}
                                      : Choice{&p.returns, &p.parameters, l_.unit().targets(p)};
        for (const ptx::CallTable &t : l_.body().call_tables) {
            if (t.name != prototype_) continue;
            for (std::string_view name : t.functions) {
                const ptx::Function *f = l_.unit().find(name).function_;
                if (!f || !f->defined) continue;
                if (!c.returns) c.returns = &f->returns, c.parameters = &f->parameters;
                if (f->returns.size() == c.returns->size() &&
                    f->parameters.size() == c.parameters->size())
                    c.functions.push_back(f);
            }
        }
        return c;
    }

    // An address of a function is a number (ptx/grammar.h): choose among those it can be.
    void indirect()
    {
        const Choice c = choice();
        if (!c.returns) return l_.fail("an indirect call needs a prototype or a list of functions");
        if (!match(*c.returns, *c.parameters)) return;
        V address = l_.read(*callee_, kB64);
        if (c.late) {
            const std::string number =
                std::to_string(function_signature(*c.returns, *c.parameters));
            l_.call(l_.runtime("ptr", "rt_function", "ptr, i64, i64",
                               join("ptr ", l_.thread(), ", i64 ", address, ", i64 ", number)),
                    arguments());
            return fetch(*c.returns);
        }
        std::string done = l_.block(), none = l_.block(), cases;
        std::vector<std::pair<std::string, const ptx::Function *>> targets;
        for (const ptx::Function *f : c.functions) {
            targets.emplace_back(l_.block(), f);
            cases += join(" i64 ", std::to_string(ptx::function_address(f->name)), ", label %",
                          targets.back().first);
        }
        l_.emit("switch i64 ", address, ", label %", none, " [", cases, " ]");
        for (const auto &[block, f] : targets) {
            l_.place_after_terminator(block);
            l_.call(*f, arguments());
            l_.jump(done);
        }
        l_.place_after_terminator(none);
        trap(l_);
        l_.place_after_terminator(done);
        fetch(*c.returns);
    }

    Lower &l_;
    const Operand *returns_ = nullptr, *callee_ = nullptr, *parameters_ = nullptr;
    std::string_view prototype_;
    std::vector<V> out_, in_;
    size_t taken_ = 0;  // of out_, by the caller
};

void call(Lower &l) { Call(l).lower(); }

const Row kRows[] = {
    {"bra", "?uni", 1, 1, bra},
    {"brx", "idx ?uni", 2, 2, brx},
    {"call", "?uni", 1, 4, call},
    {"ret", "?uni", 0, 0, ret},
    {"exit", "", 0, 0, exit_},
    {"trap", "", 0, 0, trap},
    {"brkpt", "", 0, 0, nothing},
    {"pmevent", "?mask", 1, 1, nothing},
    {"nanosleep", "u32", 1, 1, nanosleep, kSpins},
    {"membar", "cta|gl|sys", 0, 0, fence},
    {"fence", "sc|acq_rel|acquire|release $scope", 0, 0, fence},
    {"fence", "proxy alias", 0, 0, nothing},
    {"fence", "proxy async ?global|shared::cta|shared::cluster", 0, 0, nothing},
    {"fence",
     "proxy async::generic acquire|release "
     "sync_restrict::shared::cluster|sync_restrict::shared::cta cluster",
     0, 0, fence},
    {"fence", "acquire|release sync_restrict::shared::cluster|sync_restrict::shared::cta cluster",
     0, 0, fence},
    {"fence", "mbarrier_init release cluster", 0, 0, nothing},
    {"griddepcontrol", "launch_dependents|wait", 0, 0, nothing},
    {"setmaxnreg", "inc|dec sync aligned u32", 1, 1, nothing},
};

}  // namespace

const Form *unknown_form()
{
    static constexpr Row row = {"", "", 0, 255, unknown};
    static const Form form{.row = &row, .modifiers = {}, .types = {}};
    return &form;
}

std::span<const Row> control_rows() { return kRows; }

}  // namespace rgpu::softgpu::lower
