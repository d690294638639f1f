// SPDX-License-Identifier: Apache-2.0
// A parsed module: what PtxModule promises, and the call graph that compiling needs.
//
// Never changes after parse(), so any thread may ask and compile. Owns the text; all names are
// views into it.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "softgpu/compiler.h"
#include "softgpu/lower/forms.h"
#include "softgpu/lower/unit.h"
#include "softgpu/ptx/ast.h"

namespace rgpu::softgpu::lower {

// What the load of a module notes about each defined function.
struct FunctionInfo {
    std::vector<std::string_view> callees;  // called by name
    std::vector<std::string_view> names;    // other names of the module that it uses
    std::vector<std::string> indirect;      // signatures of the calls through an address
    std::vector<ptx::Variable> shared;      // .shared variables declared inside
    uint32_t local_bytes = 0, register_bytes = 0;
    bool converges = false;  // it asks which lanes are together
    bool exits = false;      // a function that may end the thread
};

// Where the .shared variables that a set of functions uses lie.
struct SharedLayout {
    std::map<std::string_view, uint32_t> offsets;
    uint32_t bytes = 0;  // of those of known size
};

// What one object is made of.
struct Plan {
    const ptx::Function *kernel = nullptr;         // whose threads run it
    std::vector<const ptx::Function *> functions;  // in it, the entry first
    bool late = false;                             // calls through addresses are rt_function's
    std::set<const ptx::Function *> called_late;   // by those
    // Of the kernel and all that it can call, wherever that is.
    bool converges = false, exits = false;
    SharedLayout layout;
    uint32_t stack_bytes = 0;

    bool of_kernel() const { return functions.front() == kernel; }
};

// The parameters' sizes, for matching an indirect call with the functions it may reach.
std::string signature(const std::vector<ptx::Variable> &returns,
                      const std::vector<ptx::Variable> &parameters);

// Its digest: what rt_function is given.
uint64_t function_signature(const std::vector<ptx::Variable> &returns,
                            const std::vector<ptx::Variable> &parameters);

class Module final : public PtxModule {
public:
    static Result<std::shared_ptr<const Module>> parse(std::string_view text);

    int ptx_version() const override { return ptx_.version; }
    int target() const override { return ptx_.target; }
    const std::vector<Kernel> &kernels() const override { return kernels_; }
    const std::vector<GlobalVariable> &globals() const override { return globals_; }
    std::string cache_key(std::string_view kernel) const override;
    Result<CompiledKernel> compile(std::string_view kernel) const override;
    std::string_view find_function(uint64_t address, uint64_t signature) const override;
    std::string function_key(std::string_view kernel, std::string_view function) const override;
    Result<CompiledKernel> compile_function(std::string_view kernel,
                                            std::string_view function) const override;

    // What is compiled with the kernel, or with a function that it calls late. plan.cc
    Plan plan(const ptx::Function &kernel, const ptx::Function *function) const;
    // LLVM IR of all of it, for compile() and for tests.
    Result<std::string> ir(const Plan &, CompiledKernel &facts) const;
    // Null where the module has no such function.
    const ptx::Function *find_function(std::string_view name) const;
    Unit::Symbol find(std::string_view name) const;
    // The functions with this signature whose address the program can know.
    std::vector<const ptx::Function *> targets(std::string_view signature) const;

private:
    // Notes what a function needs; fails on what the instruction table or the device does not
    // allow.
    Result<void> check(const ptx::Function &, const ptx::Body &, const Forms &);
    void index();
    Result<void> check_names() const;
    void make_tables();
    std::vector<const ptx::Function *> reachable(const ptx::Function &first, bool by_address) const;
    SharedLayout shared_layout(const std::vector<const ptx::Function *> &) const;
    const FunctionInfo *info(const ptx::Function &f) const;
    uint32_t local_bytes(const ptx::Function &, unsigned depth) const;
    uint32_t register_estimate(const ptx::Function &) const;
    uint32_t stack_bytes(const Plan &) const;
    uint32_t first_site(const ptx::Function &) const;
    std::string key(const Plan &) const;
    Result<CompiledKernel> compile(const Plan &, std::string_view name) const;

    std::string text_;
    ptx::Module ptx_;
    std::unordered_map<std::string_view, FunctionInfo> info_;
    std::unordered_map<std::string_view, Unit::Symbol> symbols_;
    std::vector<std::string_view> address_taken_;  // sorted
    std::vector<Kernel> kernels_;
    std::vector<GlobalVariable> globals_;
};

// IR text to an object, through librgpu-ptx.so. backend.cc
Result<std::vector<uint8_t>> compile_ir(const std::string &ir);
// What this host's CPU is, for the cache's key: code is made for it.
const std::string &host_cpu();
// A digest of the compiler's sources, so that no code of an older one is taken from the cache.
extern const char *const kCompilerSources;

}  // namespace rgpu::softgpu::lower
