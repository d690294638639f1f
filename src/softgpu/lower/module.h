// SPDX-License-Identifier: Apache-2.0
// A parsed module: what PtxModule promises, and the call graph that compiling needs.
//
// Never changes after parse(), so any thread may ask and compile. Owns the text; all names are
// views into it.
#pragma once

#include <map>
#include <memory>
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
};

// The parameters' sizes, for matching an indirect call with the functions it may reach.
std::string signature(const std::vector<ptx::Variable> &returns,
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

    // LLVM IR of the kernel with all it calls, for compile() and for tests.
    Result<std::string> ir(const ptx::Function &kernel, CompiledKernel &facts) const;
    // Null where the module has no such function.
    const ptx::Function *find_function(std::string_view name) const;
    Unit::Symbol find(std::string_view name) const;
    // The functions with this signature whose address the program can know.
    std::vector<const ptx::Function *> targets(std::string_view signature) const;

private:
    // Where the .shared variables that a set of functions uses lie.
    struct SharedLayout {
        std::map<std::string_view, uint32_t> offsets;
        uint32_t bytes = 0;  // of those of known size
    };

    // Notes what a function needs; fails on what the instruction table or the device does not
    // allow.
    Result<void> check(const ptx::Function &, const ptx::Body &, const Forms &);
    void index();
    Result<void> check_names() const;
    void make_tables();
    // The kernel, then every function it can call.
    std::vector<const ptx::Function *> reachable(const ptx::Function &kernel) const;
    SharedLayout shared_layout(const std::vector<const ptx::Function *> &) const;
    const FunctionInfo *info(const ptx::Function &f) const;
    uint32_t local_bytes(const ptx::Function &, unsigned depth) const;
    uint32_t register_estimate(const ptx::Function &) const;

    std::string text_;
    ptx::Module ptx_;
    std::unordered_map<std::string_view, FunctionInfo> info_;
    std::unordered_map<std::string_view, Unit::Symbol> symbols_;
    std::vector<std::string_view> address_taken_;
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
