// SPDX-License-Identifier: Apache-2.0
// Loading a module: checks every instruction against the table, notes who calls whom, lays memory
// out.
#include "softgpu/lower/module.h"

#include <algorithm>
#include <set>

#include "softgpu/lower/external.h"
#include "softgpu/lower/special.h"
#include "softgpu/ptx/parser.h"

namespace rgpu::softgpu {

Result<std::shared_ptr<const PtxModule>> PtxModule::parse(std::string_view ptx)
{
    auto module = lower::Module::parse(ptx);
    if (!module) return std::move(module).error();
    return std::shared_ptr<const PtxModule>(std::move(module).value());
}

namespace lower {

using ptx::Operand;
using ptx::Space;

std::string signature(const std::vector<ptx::Variable> &returns,
                      const std::vector<ptx::Variable> &parameters)
{
    std::string s;
    for (const ptx::Variable &v : returns) s += std::to_string(v.size) + ",";
    s += ":";
    for (const ptx::Variable &v : parameters) s += std::to_string(v.size) + ",";
    return s;
}

uint64_t function_signature(const std::vector<ptx::Variable> &returns,
                            const std::vector<ptx::Variable> &parameters)
{
    uint64_t h = 0xcbf29ce484222325;  // FNV-1a
    for (unsigned char c : signature(returns, parameters)) h = (h ^ c) * 0x100000001b3;
    return h;
}

Result<std::shared_ptr<const Module>> Module::parse(std::string_view text)
{
    auto module = std::make_shared<Module>();
    module->text_ = text;  // everything below points into it
    FormFinder finder;
    auto check = [&](const ptx::Function &f, const ptx::Body &body) -> Result<void> {
        auto forms = finder.find(body);
        return forms ? module->check(f, body, *forms) : std::move(forms).error();
    };
    auto parsed = ptx::parse_module(module->text_, check);
    if (!parsed) return std::move(parsed).error();
    module->ptx_ = std::move(parsed).value();
    module->index();
    if (auto complete = module->check_names(); !complete) return std::move(complete).error();
    module->make_tables();
    return std::shared_ptr<const Module>(std::move(module));
}

namespace {

constexpr uint64_t kMaxLocal = 512 << 10;  // CUDA C++ Programming Guide, technical specifications

void add_unique(std::vector<std::string_view> &list, std::string_view name)
{
    if (std::find(list.begin(), list.end(), name) == list.end()) list.push_back(name);
}

// A variable like any other, so that it has a place of its own in the kernels that use it.
ptx::Variable reserved_shared()
{
    ptx::Variable v;
    v.name = kReservedSharedName;
    v.space = Space::shared;
    v.size = kReservedShared;
    v.align = 16;
    return v;
}

// A minus in front of a register: only vmad has it, for its product or for what is added to that.
Result<void> check_minus(const ptx::Instruction &in, const Row &row, const ptx::Body &body)
{
    const Operand *o = body.operands.data() + in.first;
    uint32_t minus = 0;
    for (uint32_t i = 0; i < in.count; ++i) minus |= uint32_t{o[i].minus} << std::min(i, 31u);
    if (!minus) return {};
    if (!(row.need & kMinus) || minus & 1)
        return refuse(in, "a minus in front of a register is not for this operand",
                      ErrorKind::invalid);
    if (in.opcode.find(".po") != in.opcode.npos)
        return refuse(in, ".po takes no minus", ErrorKind::invalid);
    if (o[3].minus && o[1].minus != o[2].minus)
        return refuse(in, "a minus is for the product or for the last operand", ErrorKind::invalid);
    return {};
}

// Does it ask which lanes are together: activemask, and votes and shuffles as older compilers have?
bool asks_who_is_together(const ptx::Instruction &in)
{
    return in.opcode.starts_with("activemask") ||
           ((in.opcode.starts_with("vote.") || in.opcode.starts_with("shfl.")) &&
            in.opcode.find(".sync") == in.opcode.npos);
}

}  // namespace

// Everything that can be said of a function without generating code.
Result<void> Module::check(const ptx::Function &f, const ptx::Body &body, const Forms &forms)
{
    // Of several weak definitions the first is taken; what the others need is no matter.
    FunctionInfo ignored, &info = info_.contains(f.name) ? ignored : info_[f.name];
    for (const ptx::Variable &v : body.variables) {
        if (v.space == Space::local) info.local_bytes += static_cast<uint32_t>(v.size + v.align);
        if (v.space == Space::shared) info.shared.push_back(v);
    }
    uint64_t local = 0;
    for (const ptx::Variable &v : body.variables) local += v.space == Space::local ? v.size : 0;
    if (local > kMaxLocal)
        return error(ErrorKind::invalid, "%llu bytes of .local: a thread has 512 KiB",
                     static_cast<unsigned long long>(local));
    uint64_t bits = 0;
    for (const ptx::Register &r : body.registers) bits += r.type.total();
    info.register_bytes = static_cast<uint32_t>(std::min<uint64_t>(bits / 8, 1 << 20));
    for (const ptx::Variable &p : f.parameters)
        if (f.kernel && p.size == 0)
            return error(ErrorKind::invalid, "parameter %s has no size",
                         std::string(p.name).c_str());

    auto note = [&](const Operand &o) {
        if (o.kind == Operand::symbol) add_unique(info.names, o.name);
        if (o.kind == Operand::special && o.name.starts_with("%reserved_smem_offset"))
            info.shared.push_back(reserved_shared());
        return o.kind != Operand::special || find_special(o.name);
    };
    for (size_t n = 0; n < body.instructions.size(); ++n) {
        const ptx::Instruction &in = body.instructions[n];
        const Row &row = *forms[n]->row;
        if (in.count < row.min_operands || in.count > row.max_operands)
            return refuse(in, "wrong number of operands");
        if (auto ok = check_minus(in, row, body); !ok) return ok;
        bool call = row.opcode == "call";
        info.exits |= row.opcode == "exit" && !f.kernel;
        info.converges |= asks_who_is_together(in);
        for (uint32_t i = 0; i < in.count; ++i) {
            const Operand &o = body.operands[in.first + i];
            if (call && o.kind == Operand::symbol) {
                // The callee is the first name; a second one is the prototype.
                if (i == 0 || body.operands[in.first + i - 1].kind == Operand::list) {
                    bool prototype = i > 1 && body.operands[in.first + i - 2].kind != Operand::list;
                    if (!prototype) add_unique(info.callees, o.name);
                }
                continue;
            }
            if (row.opcode == "brx" && i == 1) continue;
            if (!note(o)) return refuse(in, "unknown special register");
            if (o.kind == Operand::address && in.opcode.starts_with("ld.param")) continue;
            for (uint32_t c = 0; c < o.count; ++c)
                if (!note(body.children[o.index + c]))
                    return refuse(in, "unknown special register");
        }
    }
    for (const ptx::Prototype &p : body.prototypes)
        info.indirect.push_back(signature(p.returns, p.parameters));
    for (const ptx::CallTable &t : body.call_tables)
        for (std::string_view f : t.functions) add_unique(info.callees, f);
    return {};
}

// Names to what they mean; definitions win over declarations.
void Module::index()
{
    for (const ptx::Variable &v : ptx_.variables) {
        auto [at, added] = symbols_.try_emplace(v.name);
        if (added || at->second.variable_->linkage == Linkage::external) {
            at->second.kind = Unit::Symbol::variable;
            at->second.variable_ = &v;
        }
    }
    for (const ptx::Function &f : ptx_.functions) {
        auto [at, added] = symbols_.try_emplace(f.name);
        if (added || (at->second.function_ && !at->second.function_->defined)) {
            at->second.kind = Unit::Symbol::function;
            at->second.function_ = &f;
        }
    }
    for (const ptx::Alias &a : ptx_.aliases) {
        auto target = symbols_.find(a.target);
        if (target == symbols_.end()) continue;
        Unit::Symbol s = target->second;
        symbols_[a.name] = s;
    }
    std::set<std::string_view> taken(ptx_.address_taken.begin(), ptx_.address_taken.end());
    for (const auto &[name, info] : info_)
        for (std::string_view used : info.names)
            if (find(used).kind == Unit::Symbol::function) taken.insert(used);
    address_taken_.assign(taken.begin(), taken.end());
}

// What functions call and name must be defined: here, or by the engine.
Result<void> Module::check_names() const
{
    auto missing = [](std::string_view what, std::string_view name, std::string_view where) {
        return error(
            ErrorKind::invalid,
            "%.*s %.*s, which %.*s uses, is nowhere defined: link the module that defines it",
            static_cast<int>(what.size()), what.data(), static_cast<int>(name.size()), name.data(),
            static_cast<int>(where.size()), where.data());
    };
    for (const auto &[where, info] : info_) {
        for (std::string_view name : info.callees) {
            const ptx::Function *f = find_function(name);
            if (f && !f->defined && !find_external(name)) return missing("function", name, where);
        }
        for (std::string_view name : info.names) {
            const Unit::Symbol s = find(name);
            if (s.kind != Unit::Symbol::variable || s.variable_->linkage != Linkage::external)
                continue;
            if (s.variable_->space == Space::global || s.variable_->space == Space::constant)
                return missing("variable", name, where);
        }
    }
    return {};
}

Unit::Symbol Module::find(std::string_view name) const
{
    auto found = symbols_.find(name);
    return found == symbols_.end() ? Unit::Symbol{} : found->second;
}

const ptx::Function *Module::find_function(std::string_view name) const
{
    Unit::Symbol s = find(name);
    return s.kind == Unit::Symbol::function ? s.function_ : nullptr;
}

const FunctionInfo *Module::info(const ptx::Function &f) const
{
    auto found = info_.find(f.name);
    return found == info_.end() ? nullptr : &found->second;
}

std::vector<const ptx::Function *> Module::targets(std::string_view wanted) const
{
    std::vector<const ptx::Function *> list;
    for (std::string_view name : address_taken_) {
        const ptx::Function *f = find_function(name);
        if (f && f->defined && !f->kernel && signature(f->returns, f->parameters) == wanted)
            list.push_back(f);
    }
    return list;
}

// Virtual registers to real ones: a guess that lets 1024 threads be resident, and keeps what the
// kernel asks for.
uint32_t Module::register_estimate(const ptx::Function &f) const
{
    const FunctionInfo *facts = info(f);
    uint32_t n = std::min(64u, 16 + (facts ? facts->register_bytes / 32 : 0));
    const Dim3 &block = f.required_threads.x ? f.required_threads : f.max_threads;
    if (const uint64_t threads = block.count() * f.min_blocks)  // in steps of 8, as GPUs have them
        n = static_cast<uint32_t>(
            std::min<uint64_t>(n, std::max<uint64_t>(65536 / threads / 8 * 8, 16)));
    return f.max_registers ? std::min(n, f.max_registers) : n;
}

void Module::make_tables()
{
    for (const ptx::Function &f : ptx_.functions) {
        if (!f.kernel || !f.defined || find_function(f.name) != &f) continue;
        Kernel k;
        k.name = f.name;
        for (const ptx::Variable &p : f.parameters)
            k.parameters.push_back({p.offset, p.size, p.align});
        k.parameter_bytes = f.parameter_bytes;
        k.static_shared = shared_layout(reachable(f, true)).bytes;
        k.local_bytes = local_bytes(f, 0);
        k.max_threads = f.max_threads;
        k.required_threads = f.required_threads;
        k.cluster = f.cluster;
        k.registers = register_estimate(f);
        kernels_.push_back(std::move(k));
    }
    for (const ptx::Variable &v : ptx_.variables) {
        if (v.space != Space::global && v.space != Space::constant) continue;
        if (find(v.name).variable_ != &v) continue;  // declared elsewhere, or weak and not the one
        GlobalVariable g;
        g.name = v.name;
        g.size = v.size;
        g.align = v.align;
        g.constant = v.space == Space::constant;
        g.managed = v.managed;
        g.linkage = v.linkage;
        g.init = v.init;
        g.addresses = v.addresses;
        globals_.push_back(std::move(g));
    }
}

}  // namespace lower
}  // namespace rgpu::softgpu
