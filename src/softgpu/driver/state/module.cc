// SPDX-License-Identifier: Apache-2.0
#include "softgpu/driver/state/module.h"

#include <algorithm>
#include <cstring>

#include "softgpu/driver/base/log.h"
#include "softgpu/driver/image/image.h"
#include "softgpu/driver/state/attributes.h"
#include "softgpu/driver/state/context.h"
#include "softgpu/driver/state/driver.h"
#include "softgpu/driver/state/memory.h"

namespace rgpu::softgpu::driver {

// --- functions

CUresult Function::code(std::shared_ptr<const LoadedKernel> &code)
{
    std::lock_guard lock(mutex_);
    if (!code_ && !failed_) {
        auto loaded = module.load(kernel.name);
        if (loaded) {
            code_ = std::move(*loaded);
        } else {
            complain("kernel %s: %s", kernel.name.c_str(), loaded.error().text.c_str());
            failed_ = to_result(loaded.error());
        }
    }
    code = code_;
    return failed_;
}

CUresult load_waiting(Function &f)
{
    std::shared_ptr<const LoadedKernel> code;
    if (f.loaded()) return CUDA_SUCCESS;
    f.module.context.synchronize();
    return f.code(code);
}

bool Function::loaded() const
{
    std::lock_guard lock(mutex_);
    return code_ != nullptr;
}

unsigned Function::dynamic_shared_limit() const
{
    int value = max_dynamic_shared;
    if (value < 0)
        default_attribute(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, value);
    return value;
}

CUresult Function::attribute(CUfunction_attribute which, int &value) const
{
    switch (which) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        value = dynamic_shared_limit();
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: value = carveout; return CUDA_SUCCESS;
    default: return kernel_attribute(kernel, *module.ptx, which, value);
    }
}

CUresult Function::set_attribute(CUfunction_attribute which, int value)
{
    if (CUresult rc = check_attribute(kernel, which, value)) return rc;
    if (which == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) max_dynamic_shared = value;
    if (which == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) carveout = value;
    return CUDA_SUCCESS;
}

CUresult default_attribute(const softgpu::Kernel &k, CUfunction_attribute which, int &value)
{
    switch (which) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        value = k.static_shared < kSharedPerBlock ? kSharedPerBlock - k.static_shared : 0;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: value = -1; return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult check_attribute(const softgpu::Kernel &k, CUfunction_attribute which, int value)
{
    switch (which) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: {
        const int64_t all = int64_t{value} + k.static_shared;
        return value < 0 || all > shared_per_block_optin() ? CUDA_ERROR_INVALID_VALUE
                                                           : CUDA_SUCCESS;
    }
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        return value < -1 || value > 100 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE: return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult kernel_attribute(const softgpu::Kernel &k, const PtxModule &ptx,
                          CUfunction_attribute which, int &value)
{
    switch (which) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: {
        const Dim3 &limit = k.required_threads.x ? k.required_threads : k.max_threads;
        value = limit.x ? std::min<uint64_t>(limit.count(), kMaxThreadsPerBlock)
                        : kMaxThreadsPerBlock;
        return CUDA_SUCCESS;
    }
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: value = k.static_shared; return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: value = k.local_bytes; return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        value = std::clamp<int>(k.registers, 1, 255);
        return CUDA_SUCCESS;
    // CUB chooses its tuning by this one: it must be what was compiled, not what the device could
    // run.
    case CU_FUNC_ATTRIBUTE_PTX_VERSION: value = ptx.target(); return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        value = driver().settings.compute_capability();
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: {
        size_t bytes = 0;
        for (const GlobalVariable &v : ptx.globals())
            if (v.constant) bytes += v.size;
        value = static_cast<int>(bytes);
        return CUDA_SUCCESS;
    }
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
        value = static_cast<int>(k.cluster.x);
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
        value = static_cast<int>(k.cluster.y);
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
        value = static_cast<int>(k.cluster.z);
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE: value = 0; return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

// --- modules

Module::Module(Context &c, std::shared_ptr<const PtxModule> p) : context(c), ptx(std::move(p))
{
    for (const softgpu::Kernel &k : ptx->kernels())
        functions_.emplace(k.name, std::make_shared<Function>(*this, k));
}

Module::~Module()
{
    for (uint64_t address : owned_)
        if (auto r = driver().ranges.remove(address)) release_range(*r);
}

CUresult Module::create(Context &c, std::shared_ptr<const PtxModule> ptx, const Variables &shared,
                        std::shared_ptr<Module> &made, std::string &log)
{
    std::shared_ptr<Module> m(new Module(c, std::move(ptx)));
    if (CUresult rc = m->make_variables(shared, log)) return rc;
    made = std::move(m);
    return CUDA_SUCCESS;
}

CUresult Module::make_variables(const Variables &shared, std::string &log)
{
    *variables_ = shared;
    for (const GlobalVariable &v : ptx->globals()) {
        if (v.linkage == Linkage::external || variables_->count(v.name)) continue;
        Range made;
        made.context = &context;
        made.memory = v.managed ? Memory::managed : Memory::variable;
        const uint64_t address = allocate_device(context.device, std::max<size_t>(v.size, 1), made);
        if (!address) {
            log = "no device memory for variable " + v.name + " of " + std::to_string(v.size) +
                  " bytes";
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        owned_.push_back(address);
        (*variables_)[v.name] = {address, v.size, v.managed};
    }
    for (const GlobalVariable &v : ptx->globals())
        if (v.linkage != Linkage::external && !shared.count(v.name))
            initialise_variable(v, (*variables_)[v.name].address, *variables_);
    return CUDA_SUCCESS;
}

void initialise_variable(const GlobalVariable &v, uint64_t address, const Variables &all)
{
    auto *bytes = reinterpret_cast<uint8_t *>(address);
    memset(bytes, 0, v.size);
    memcpy(bytes, v.init.data(), std::min(v.init.size(), v.size));
    for (const AddressInit &a : v.addresses) {
        if (a.offset > v.size || a.size > 8 || a.size > v.size - a.offset) continue;
        auto it = all.find(a.symbol);
        if (it == all.end()) {
            complain("variable %s: its initial value holds the address of %s %s, which has none "
                     "here; it stays zero",
                     v.name.c_str(), a.function ? "function" : "variable", a.symbol.c_str());
            continue;
        }
        const uint64_t value = (it->second.address + a.addend) >> a.shift;
        memcpy(bytes + a.offset, &value, a.size);
    }
}

std::shared_ptr<Function> Module::function(std::string_view name) const
{
    auto it = functions_.find(name);
    return it == functions_.end() ? nullptr : it->second;
}

const Variable *Module::variable(std::string_view name) const
{
    auto it = variables_->find(name);
    return it == variables_->end() ? nullptr : &it->second;
}

Result<std::shared_ptr<const LoadedKernel>> Module::load(const std::string &kernel) const
{
    const auto resolve = [variables = variables_](std::string_view symbol) -> uint64_t {
        if (!symbol.starts_with("g.")) return 0;
        auto it = variables->find(symbol.substr(2));
        return it == variables->end() ? 0 : it->second.address;
    };
    const auto function = [resolve, kernel, ptx = ptx](
                              uint64_t address,
                              uint64_t signature) -> Result<std::shared_ptr<const LoadedKernel>> {
        const std::string_view name = ptx->find_function(address, signature);
        if (name.empty()) return Error{ErrorKind::invalid, "a call of what is no such function"};
        auto compiled = compile_cached(*ptx, kernel, name);
        if (!compiled) return std::move(compiled).error();
        return LoadedKernel::load(*compiled, resolve);
    };
    auto compiled = compile_cached(*ptx, kernel);
    if (!compiled) return std::move(compiled).error();
    return LoadedKernel::load(*compiled, resolve, function);
}

// --- which modules there are

void publish(const std::shared_ptr<Module> &m)
{
    for (const auto &[name, function] : m->functions()) driver().functions.add(function);
    driver().modules.add(m);
}

void withdraw(Module &m)
{
    for (const auto &[name, function] : m.functions())
        driver().functions.remove(function->handle());
    driver().modules.remove(m.handle());
}

void forget_modules(Context &c)
{
    for (const auto &m :
         driver().modules.remove_if([&](const Module &m) { return &m.context == &c; }))
        withdraw(*m);
}

}  // namespace rgpu::softgpu::driver
