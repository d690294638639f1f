// SPDX-License-Identifier: Apache-2.0
// A library: device code that belongs to no context, and becomes a module in each that uses it.
//
// Any thread. The driver's table of handles owns libraries and their kernels; a library owns its
// modules. Errors are CUDA's for the call.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "softgpu/driver/state/module.h"

namespace rgpu::softgpu::driver {

class Library;

// A kernel of a library. What is set here holds for its functions in all contexts of a device.
class LibraryKernel {
public:
    LibraryKernel(Library &l, const softgpu::Kernel &k) : library(l), kernel(k) {}

    Library &library;
    const softgpu::Kernel &kernel;

    // The function that it is in a context; makes the module if it must.
    CUresult function(Context &, std::shared_ptr<Function> &);
    CUresult attribute(CUfunction_attribute, int device, int &value);
    CUresult set_attribute(CUfunction_attribute, int device, int value);

private:
    std::mutex mutex_;
    std::map<Context *, std::shared_ptr<Function>> functions_;
    std::map<std::pair<int, CUfunction_attribute>, int> chosen_;  // by device
    friend class Library;
};

class Library {
public:
    // Gives managed variables their one address. `log` says why it failed.
    static CUresult create(std::shared_ptr<const PtxModule>, std::shared_ptr<Library> &,
                           std::string &log);
    ~Library();

    const std::shared_ptr<const PtxModule> ptx;

    // Its module in a context, made at the first use.
    CUresult module(Context &, std::shared_ptr<Module> &);
    const std::map<std::string, std::shared_ptr<LibraryKernel>, std::less<>> &kernels() const
    {
        return kernels_;
    }
    const Variable *managed(std::string_view name) const;
    // The context ends: its module goes.
    void forget(Context &);
    // The program unloads it: waits for work of all contexts, then makes all handles unknown.
    void unload();

private:
    explicit Library(std::shared_ptr<const PtxModule>);

    std::mutex mutex_;
    std::map<Context *, std::shared_ptr<Module>> modules_;
    std::map<std::string, std::shared_ptr<LibraryKernel>, std::less<>> kernels_;
    Variables managed_;
};

// The context ends: its modules of all libraries.
void forget_library_modules(Context &);

// The function that a launch names: a CUfunction, or a CUkernel for the current context.
// INVALID_HANDLE when it is neither.
CUresult find_function(CUfunction, std::shared_ptr<Function> &);

}  // namespace rgpu::softgpu::driver
