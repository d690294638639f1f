// SPDX-License-Identifier: Apache-2.0
// Device code in a context: its variables in device memory, its kernels ready to launch.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "calls/cuda_api.h"
#include "softgpu/compiler.h"
#include "softgpu/engine.h"

namespace rgpu::softgpu::driver {

class Context;
class Module;

struct Variable {
    uint64_t address = 0, bytes = 0;
    bool managed = false;
};
using Variables = std::map<std::string, Variable, std::less<>>;

// A kernel of a module.
class Function {
public:
    Function(Module &m, const softgpu::Kernel &k) : module(m), kernel(k) {}

    Module &module;
    const softgpu::Kernel &kernel;
    std::atomic<int> max_dynamic_shared = -1;  // as the program set it; -1: CUDA's default
    std::atomic<int> carveout = -1;
    std::atomic<CUkernel> library_kernel = nullptr;  // that it was got from

    CUfunction handle() { return reinterpret_cast<CUfunction>(this); }
    // Compiles it if this is the first time. Any thread.
    CUresult code(std::shared_ptr<const LoadedKernel> &);
    // Bytes of dynamic shared memory that a launch may ask for.
    unsigned dynamic_shared_limit() const;
    bool loaded() const;
    CUresult attribute(CUfunction_attribute, int &value) const;
    CUresult set_attribute(CUfunction_attribute, int value);

private:
    mutable std::mutex mutex_;
    std::shared_ptr<const LoadedKernel> code_;
    CUresult failed_ = CUDA_SUCCESS;
};

// Compiles it if this is the first time, when all work of its context is over
// (RGPU_SOFTGPU_LOADING).
CUresult load_waiting(Function &);

// Owned by the driver's table of handles, or by its library; its functions live as long. Any
// thread: nothing changes after create().
class Module : public std::enable_shared_from_this<Module> {
public:
    // `shared` are variables that exist already (a library's managed ones). `log` says why it
    // failed.
    static CUresult create(Context &, std::shared_ptr<const PtxModule>, const Variables &shared,
                           std::shared_ptr<Module> &, std::string &log);
    ~Module();

    Context &context;
    const std::shared_ptr<const PtxModule> ptx;

    CUmodule handle() { return reinterpret_cast<CUmodule>(this); }
    // Null when there is none of this name.
    std::shared_ptr<Function> function(std::string_view name) const;
    const Variable *variable(std::string_view name) const;
    // A kernel's code, compiled or from the cache. It refers to no part of this module.
    Result<std::shared_ptr<const LoadedKernel>> load(const std::string &kernel) const;
    const std::map<std::string, std::shared_ptr<Function>, std::less<>> &functions() const
    {
        return functions_;
    }

private:
    Module(Context &, std::shared_ptr<const PtxModule>);
    CUresult make_variables(const Variables &shared, std::string &log);

    // Shared with the code of its kernels, which may be at work when the module has gone.
    const std::shared_ptr<Variables> variables_ = std::make_shared<Variables>();
    std::vector<uint64_t> owned_;  // addresses of the variables that go with it
    std::map<std::string, std::shared_ptr<Function>, std::less<>> functions_;
};

// Fills in a variable's initial value. `find` gives addresses of other variables, 0 for unknown
// ones.
void initialise_variable(const GlobalVariable &, uint64_t address, const Variables &all);

// Makes a module and its functions known, or unknown.
void publish(const std::shared_ptr<Module> &);
void withdraw(Module &);
// All of a context, which ends; modules of libraries first (library.h).
void forget_modules(Context &);

// Function attributes that the kernel alone decides, the defaults of those that a program may set,
// and whether it may set them so.
CUresult kernel_attribute(const softgpu::Kernel &, const PtxModule &, CUfunction_attribute,
                          int &value);
CUresult default_attribute(const softgpu::Kernel &, CUfunction_attribute, int &value);
CUresult check_attribute(const softgpu::Kernel &, CUfunction_attribute, int value);

}  // namespace rgpu::softgpu::driver
