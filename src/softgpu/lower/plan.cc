// SPDX-License-Identifier: Apache-2.0
// What is compiled together: a kernel with all that it can call, or, where the functions that it
// may call through their addresses are many, with what it calls by name; each of those functions
// then is compiled for itself when it is called.
#include <algorithm>
#include <unordered_set>

#include "softgpu/lower/module.h"
#include "softgpu/lower/segments.h"
#include "softgpu/ptx/grammar.h"
#include "util/sha256.h"

namespace rgpu::softgpu::lower {

using ptx::Space;

namespace {

// Bytes of PTX of functions that are called through their addresses alone, up to which they are
// compiled with the kernel. A few small ones (virtual functions) are inlined there, and threads
// need no fibers. More would take the first launch longer than these are worth: LLVM makes 0.1 to
// 0.3 MB of PTX into code in a second.
constexpr size_t kLateBytes = 64 * 1024;

constexpr uint64_t kMostRegisterBytes = 262144;  // on the stack: see Plan::stack_bytes
constexpr uint64_t kStackBytes = 16384;          // what LLVM's code and rt_* functions need

}  // namespace

// `first`, then every function it can call: by name, or by its address, too.
std::vector<const ptx::Function *> Module::reachable(const ptx::Function &first,
                                                     bool by_address) const
{
    std::vector<const ptx::Function *> order{&first};
    std::unordered_set<const ptx::Function *> known{&first};
    auto add = [&](const ptx::Function *f) {
        if (f && f->defined && known.insert(f).second) order.push_back(f);
    };
    for (size_t i = 0; i < order.size(); ++i) {
        const FunctionInfo *facts = info(*order[i]);
        if (!facts) continue;
        for (std::string_view name : facts->callees) add(find_function(name));
        if (!by_address) continue;
        for (const std::string &s : facts->indirect)
            for (const ptx::Function *f : targets(s)) add(f);
    }
    return order;
}

SharedLayout Module::shared_layout(const std::vector<const ptx::Function *> &functions) const
{
    SharedLayout layout;
    std::vector<const ptx::Variable *> open;
    auto add = [&](const ptx::Variable &v) {
        if (layout.offsets.contains(v.name)) return;
        if (v.size == 0 || v.linkage == Linkage::external) {
            open.push_back(&v);
            return;
        }
        uint32_t align = static_cast<uint32_t>(v.align);
        layout.bytes = (layout.bytes + align - 1) / align * align;
        layout.offsets[v.name] = layout.bytes;
        layout.bytes += static_cast<uint32_t>(v.size);
    };
    for (const ptx::Function *f : functions) {
        const FunctionInfo *facts = info(*f);
        if (!facts) continue;
        for (const ptx::Variable &v : facts->shared) add(v);
        for (std::string_view name : facts->names) {
            Unit::Symbol s = find(name);
            if (s.kind == Unit::Symbol::variable && s.variable_->space == Space::shared)
                add(*s.variable_);
        }
    }
    // All of unknown size share the dynamic memory, which begins after the rest.
    uint32_t align = 16;
    for (const ptx::Variable *v : open) align = std::max(align, static_cast<uint32_t>(v->align));
    if (!open.empty()) layout.bytes = (layout.bytes + align - 1) / align * align;
    for (const ptx::Variable *v : open) layout.offsets[v->name] = layout.bytes;
    return layout;
}

uint32_t Module::local_bytes(const ptx::Function &f, unsigned depth) const
{
    const FunctionInfo *facts = info(f);
    if (!facts || depth > 32) return 0;
    uint32_t most = 0;
    for (std::string_view name : facts->callees)
        if (const ptx::Function *callee = find_function(name))
            most = std::max(most, local_bytes(*callee, depth + 1));
    return facts->local_bytes + most;
}

// What a thread needs on its stack. What LLVM keeps there is not known before the code is made: the
// registers of all functions together are the most that it can be.
uint32_t Module::stack_bytes(const Plan &plan) const
{
    auto registers = [&](const std::vector<const ptx::Function *> &functions) {
        uint64_t bytes = 0;
        for (const ptx::Function *f : functions) bytes += info(*f)->register_bytes;
        return bytes;
    };
    uint64_t kept = registers(plan.functions), local = local_bytes(*plan.kernel, 0);
    if (plan.late) {
        // Late functions may call each other so, as virtual functions do: a guess how deep.
        constexpr uint64_t kLevels = 8;
        uint64_t most_kept = 0, most_local = 0, levels = 1;
        for (const ptx::Function *f : plan.called_late) {
            if (!info(*f)->indirect.empty()) levels = kLevels;
            most_kept = std::max(most_kept, registers(reachable(*f, false)));
            most_local = std::max<uint64_t>(most_local, local_bytes(*f, 0));
        }
        kept = registers(reachable(*plan.kernel, false)) + levels * most_kept;
        local += levels * most_local;
    }
    return static_cast<uint32_t>(kStackBytes + local + std::min(kept, kMostRegisterBytes));
}

Plan Module::plan(const ptx::Function &kernel, const ptx::Function *function) const
{
    Plan p;
    p.kernel = &kernel;
    const auto all = reachable(kernel, true), named = reachable(kernel, false);
    const std::unordered_set<const ptx::Function *> by_name(named.begin(), named.end());
    size_t bytes = 0;
    for (const ptx::Function *f : all) {
        const FunctionInfo &facts = *info(*f);
        p.converges |= facts.converges;
        p.exits |= facts.exits;
        if (by_name.contains(f)) continue;
        bytes += f->text.size();
    }
    p.late = bytes > kLateBytes;
    if (p.late)
        for (const ptx::Function *f : all)
            for (const std::string &s : info(*f)->indirect)
                for (const ptx::Function *target : targets(s)) p.called_late.insert(target);
    p.functions = function ? reachable(*function, false) : p.late ? named : all;
    p.layout = shared_layout(all);
    p.stack_bytes = stack_bytes(p);
    return p;
}

std::string Module::key(const Plan &p) const
{
    Sha256 sha;
    sha.add("rgpu ptx compiler ").add(kCompilerSources).add(host_cpu());
    if (wants_fibers()) sha.add(" fibers");
    for (const ptx::Function *f : p.functions) sha.add(f->text).add("\n");
    std::set<std::string_view> used;
    for (const ptx::Function *f : p.functions) {
        for (std::string_view name : info(*f)->names) used.insert(name);
        for (const ptx::Variable &v : info(*f)->shared) used.insert(v.name);
    }
    for (const auto &[name, offset] : p.layout.offsets)
        if (used.contains(name)) sha.add(name).add(" ").add(std::to_string(offset)).add("\n");
    if (!p.late) return to_hex(sha.digest());
    // What the functions that are compiled elsewhere add.
    sha.add(p.converges ? " converges" : "").add(p.exits ? " exits" : "");
    if (p.of_kernel())
        sha.add(" stack ").add(std::to_string(p.stack_bytes));
    else
        sha.add(" sites ").add(std::to_string(first_site(*p.functions.front())));
    return to_hex(sha.digest());
}

std::string Module::cache_key(std::string_view kernel) const
{
    const ptx::Function *f = find_function(kernel);
    return f && f->defined ? key(plan(*f, nullptr)) : to_hex(Sha256().digest());
}

std::string Module::function_key(std::string_view kernel, std::string_view function) const
{
    const ptx::Function *k = find_function(kernel), *f = find_function(function);
    return k && k->defined && f && f->defined ? key(plan(*k, f)) : to_hex(Sha256().digest());
}

std::string_view Module::find_function(uint64_t address, uint64_t wanted) const
{
    for (std::string_view name : address_taken_) {
        const ptx::Function *f = find_function(name);
        if (f && f->defined && !f->kernel && ptx::function_address(f->name) == address &&
            function_signature(f->returns, f->parameters) == wanted)
            return f->name;
    }
    return {};
}

// Sites in functions of their own must differ from those in others, which lanes of the same warp
// may be in.
uint32_t Module::first_site(const ptx::Function &f) const
{
    const auto at = std::lower_bound(address_taken_.begin(), address_taken_.end(), f.name);
    return static_cast<uint32_t>(at - address_taken_.begin() + 1) << 16;
}

}  // namespace rgpu::softgpu::lower
