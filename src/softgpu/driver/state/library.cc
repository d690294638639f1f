// SPDX-License-Identifier: Apache-2.0
#include "softgpu/driver/state/library.h"

#include <set>

#include "softgpu/driver/base/log.h"
#include "softgpu/driver/state/context.h"
#include "softgpu/driver/state/current.h"
#include "softgpu/driver/state/driver.h"
#include "softgpu/driver/state/memory.h"

namespace rgpu::softgpu::driver {

namespace {

struct All {
    std::mutex mutex;
    std::set<Library *> libraries;
};

All &all()
{
    static auto *a = new All;
    return *a;
}

}  // namespace

// --- kernels

CUresult LibraryKernel::function(Context &c, std::shared_ptr<Function> &f)
{
    {
        std::lock_guard lock(mutex_);
        auto it = functions_.find(&c);
        if (it != functions_.end()) {
            f = it->second;
            return CUDA_SUCCESS;
        }
    }
    std::shared_ptr<Module> m;
    if (CUresult rc = library.module(c, m)) return rc;
    f = m->function(kernel.name);
    f->library_kernel = reinterpret_cast<CUkernel>(this);
    std::lock_guard lock(mutex_);
    functions_[&c] = f;
    for (const auto &[key, value] : chosen_)
        if (key.first == c.device.index) f->set_attribute(key.second, value);
    return CUDA_SUCCESS;
}

CUresult LibraryKernel::attribute(CUfunction_attribute which, int device, int &value)
{
    std::lock_guard lock(mutex_);
    auto it = chosen_.find({device, which});
    if (it != chosen_.end()) {
        value = it->second;
        return CUDA_SUCCESS;
    }
    if (!default_attribute(kernel, which, value)) return CUDA_SUCCESS;
    return kernel_attribute(kernel, *library.ptx, which, value);
}

CUresult LibraryKernel::set_attribute(CUfunction_attribute which, int device, int value)
{
    if (CUresult rc = check_attribute(kernel, which, value)) return rc;
    std::lock_guard lock(mutex_);
    chosen_[{device, which}] = value;
    for (const auto &[c, f] : functions_)
        if (c->device.index == device) f->set_attribute(which, value);
    return CUDA_SUCCESS;
}

// --- libraries

Library::Library(std::shared_ptr<const PtxModule> p) : ptx(std::move(p))
{
    for (const softgpu::Kernel &k : ptx->kernels())
        kernels_.emplace(k.name, std::make_shared<LibraryKernel>(*this, k));
    std::lock_guard lock(all().mutex);
    all().libraries.insert(this);
}

Library::~Library()
{
    {
        std::lock_guard lock(all().mutex);
        all().libraries.erase(this);
    }
    modules_.clear();
    for (const auto &[name, v] : managed_) free_device(v.address);
}

CUresult Library::create(std::shared_ptr<const PtxModule> ptx, std::shared_ptr<Library> &made,
                         std::string &log)
{
    std::shared_ptr<Library> l(new Library(std::move(ptx)));
    // Managed variables have one address for all contexts.
    for (const GlobalVariable &v : l->ptx->globals()) {
        if (!v.managed || v.linkage == Linkage::external) continue;
        Range range;
        range.memory = Memory::managed;
        const uint64_t address =
            allocate_device(*driver().devices[0], std::max<size_t>(v.size, 1), range);
        if (!address) {
            log = "no device memory for managed variable " + v.name;
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        l->managed_[v.name] = {address, v.size, true};
    }
    for (const GlobalVariable &v : l->ptx->globals())
        if (auto it = l->managed_.find(v.name); it != l->managed_.end())
            initialise_variable(v, it->second.address, l->managed_);
    made = std::move(l);
    return CUDA_SUCCESS;
}

CUresult Library::module(Context &c, std::shared_ptr<Module> &m)
{
    std::lock_guard lock(mutex_);
    std::shared_ptr<Module> &known = modules_[&c];
    if (!known) {
        std::string log;
        if (CUresult rc = Module::create(c, ptx, managed_, known, log)) {
            complain("%s", log.c_str());
            return rc;
        }
        publish(known);
    }
    m = known;
    return CUDA_SUCCESS;
}

const Variable *Library::managed(std::string_view name) const
{
    auto it = managed_.find(name);
    return it == managed_.end() ? nullptr : &it->second;
}

void Library::forget(Context &c)
{
    std::lock_guard lock(mutex_);
    for (const auto &[name, k] : kernels_) {
        std::lock_guard kernel_lock(k->mutex_);
        k->functions_.erase(&c);
    }
    auto it = modules_.find(&c);
    if (it == modules_.end()) return;
    withdraw(*it->second);
    modules_.erase(it);
}

void Library::unload()
{
    std::map<Context *, std::shared_ptr<Module>> modules;
    {
        std::lock_guard lock(mutex_);
        modules.swap(modules_);
    }
    for (const auto &[c, m] : modules) {
        c->synchronize();
        withdraw(*m);
    }
    for (const auto &[name, k] : kernels_)
        driver().kernels.remove(reinterpret_cast<CUkernel>(k.get()));
}

void forget_library_modules(Context &c)
{
    std::lock_guard lock(all().mutex);
    for (Library *l : all().libraries) l->forget(c);
}

CUresult find_function(CUfunction handle, std::shared_ptr<Function> &function)
{
    function = driver().functions.find(handle);
    if (function) return CUDA_SUCCESS;
    auto kernel = driver().kernels.find(reinterpret_cast<CUkernel>(handle));
    if (!kernel) return CUDA_ERROR_INVALID_HANDLE;
    Context *c;
    if (CUresult rc = usable_context(c)) return rc;
    return kernel->function(*c, function);
}

}  // namespace rgpu::softgpu::driver
