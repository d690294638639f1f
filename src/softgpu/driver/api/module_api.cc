// SPDX-License-Identifier: Apache-2.0
// Modules and their functions: CUDA Driver API, "Module Management", "Execution Control"
// (attributes).
#include "softgpu/driver/api/export.h"
#include "softgpu/driver/base/log.h"
#include "softgpu/driver/image/image.h"
#include "softgpu/driver/image/jit_options.h"
#include "softgpu/driver/state/context.h"
#include "softgpu/driver/state/current.h"
#include "softgpu/driver/state/driver.h"
#include "softgpu/driver/state/library.h"
#include "softgpu/driver/state/module.h"

namespace rgpu::softgpu::driver {

namespace {

// --- loading

template <class Load>
CUresult load_with(CUmodule *module, const JitOptions &options, const Load &load)
{
    Context *c;
    if (CUresult rc = usable_context(c)) return rc;
    if (!module || !options.valid()) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<const PtxModule> ptx;
    std::shared_ptr<Module> made;
    std::string log;
    CUresult rc = load(options.max_registers(), ptx, log);
    if (!rc) rc = Module::create(*c, std::move(ptx), {}, made, log);
    options.write_logs(log, rc ? ""
                               : "info: " + std::to_string(made->functions().size()) +
                                     " kernels, each compiled at its first launch\n");
    if (rc) {
        complain("loading a module: %s", log.c_str());
        return rc;
    }
    if (driver().settings.loading_waits) c->synchronize();
    publish(made);
    *module = made->handle();
    return CUDA_SUCCESS;
}

CUresult load_data_ex(CUmodule *module, const void *image, unsigned count, CUjit_option *options,
                      void **values)
{
    if (!image) return CUDA_ERROR_INVALID_VALUE;
    return load_with(module, JitOptions(count, options, values),
                     [&](unsigned registers, auto &ptx, std::string &log) {
                         return load_image(image, driver().settings.compute_capability(), registers,
                                           ptx, log);
                     });
}

CUresult load_data(CUmodule *module, const void *image)
{
    return load_data_ex(module, image, 0, nullptr, nullptr);
}

CUresult load(CUmodule *module, const char *path)
{
    if (!path) return CUDA_ERROR_INVALID_VALUE;
    return load_with(module, JitOptions(0, nullptr, nullptr),
                     [&](unsigned registers, auto &ptx, std::string &log) {
                         return load_file(path, driver().settings.compute_capability(), registers,
                                          ptx, log);
                     });
}

CUresult unload(CUmodule handle)
{
    auto m = driver().modules.find(handle);
    if (!m) return CUDA_ERROR_INVALID_HANDLE;
    m->context.synchronize();
    withdraw(*m);
    return CUDA_SUCCESS;
}

CUresult loading_mode(CUmoduleLoadingMode *mode)
{
    if (!mode) return CUDA_ERROR_INVALID_VALUE;
    *mode = CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
}

// --- what is in a module

CUresult get_function(CUfunction *function, CUmodule handle, const char *name)
{
    auto m = driver().modules.find(handle);
    if (!m) return CUDA_ERROR_INVALID_HANDLE;
    if (!function || !name) return CUDA_ERROR_INVALID_VALUE;
    auto f = m->function(name);
    if (!f) return CUDA_ERROR_NOT_FOUND;
    *function = f->handle();
    return CUDA_SUCCESS;
}

CUresult get_global(CUdeviceptr *address, size_t *bytes, CUmodule handle, const char *name)
{
    auto m = driver().modules.find(handle);
    if (!m) return CUDA_ERROR_INVALID_HANDLE;
    if (!name) return CUDA_ERROR_INVALID_VALUE;
    const Variable *v = m->variable(name);
    if (!v) return CUDA_ERROR_NOT_FOUND;
    if (address) *address = v->address;
    if (bytes) *bytes = v->bytes;
    return CUDA_SUCCESS;
}

CUresult function_count(unsigned *count, CUmodule handle)
{
    auto m = driver().modules.find(handle);
    if (!m) return CUDA_ERROR_INVALID_HANDLE;
    if (!count) return CUDA_ERROR_INVALID_VALUE;
    *count = static_cast<unsigned>(m->functions().size());
    return CUDA_SUCCESS;
}

CUresult enumerate(CUfunction *functions, unsigned room, CUmodule handle)
{
    auto m = driver().modules.find(handle);
    if (!m) return CUDA_ERROR_INVALID_HANDLE;
    if (!functions || !room) return CUDA_ERROR_INVALID_VALUE;
    for (const auto &[name, f] : m->functions()) {
        if (!room--) break;
        *functions++ = f->handle();
    }
    return CUDA_SUCCESS;
}

// --- functions

CUresult get_attribute(int *value, CUfunction_attribute which, CUfunction handle)
{
    std::shared_ptr<Function> f;
    if (CUresult rc = find_function(handle, f)) return rc;
    return value ? f->attribute(which, *value) : CUDA_ERROR_INVALID_VALUE;
}

CUresult set_attribute(CUfunction handle, CUfunction_attribute which, int value)
{
    std::shared_ptr<Function> f;
    if (CUresult rc = find_function(handle, f)) return rc;
    return f->set_attribute(which, value);
}

CUresult set_cache_config(CUfunction handle, CUfunc_cache)
{
    std::shared_ptr<Function> f;
    return find_function(handle, f);
}

CUresult set_shared_config(CUfunction handle, CUsharedconfig)
{
    std::shared_ptr<Function> f;
    return find_function(handle, f);
}

CUresult get_module(CUmodule *module, CUfunction handle)
{
    std::shared_ptr<Function> f;
    if (CUresult rc = find_function(handle, f)) return rc;
    if (!module) return CUDA_ERROR_INVALID_VALUE;
    *module = f->module.handle();
    return CUDA_SUCCESS;
}

CUresult get_name(const char **name, CUfunction handle)
{
    std::shared_ptr<Function> f;
    if (CUresult rc = find_function(handle, f)) return rc;
    if (!name) return CUDA_ERROR_INVALID_VALUE;
    *name = f->kernel.name.c_str();
    return CUDA_SUCCESS;
}

CUresult parameter_info(CUfunction handle, size_t index, size_t *offset, size_t *bytes)
{
    std::shared_ptr<Function> f;
    if (CUresult rc = find_function(handle, f)) return rc;
    if (!offset || index >= f->kernel.parameters.size()) return CUDA_ERROR_INVALID_VALUE;
    *offset = f->kernel.parameters[index].offset;
    if (bytes) *bytes = f->kernel.parameters[index].size;
    return CUDA_SUCCESS;
}

CUresult is_loaded(CUfunctionLoadingState *state, CUfunction handle)
{
    std::shared_ptr<Function> f;
    if (CUresult rc = find_function(handle, f)) return rc;
    if (!state) return CUDA_ERROR_INVALID_VALUE;
    *state = f->loaded() ? CU_FUNCTION_LOADING_STATE_LOADED : CU_FUNCTION_LOADING_STATE_UNLOADED;
    return CUDA_SUCCESS;
}

CUresult load_function(CUfunction handle)
{
    std::shared_ptr<Function> f;
    std::shared_ptr<const LoadedKernel> code;
    if (CUresult rc = find_function(handle, f)) return rc;
    return driver().settings.loading_waits ? load_waiting(*f) : f->code(code);
}

RGPU_EXPORT(cuModuleLoad, load)
RGPU_EXPORT(cuModuleLoadData, load_data)
RGPU_EXPORT(cuModuleLoadDataEx, load_data_ex)
RGPU_EXPORT(cuModuleLoadFatBinary, load_data)
RGPU_EXPORT(cuModuleUnload, unload)
RGPU_EXPORT(cuModuleGetLoadingMode, loading_mode)
RGPU_EXPORT(cuModuleGetFunction, get_function)
RGPU_EXPORT(cuModuleGetGlobal_v2, get_global)
RGPU_EXPORT(cuModuleGetFunctionCount, function_count)
RGPU_EXPORT(cuModuleEnumerateFunctions, enumerate)
RGPU_EXPORT(cuFuncGetAttribute, get_attribute)
RGPU_EXPORT(cuFuncSetAttribute, set_attribute)
RGPU_EXPORT(cuFuncSetCacheConfig, set_cache_config)
RGPU_EXPORT(cuFuncSetSharedMemConfig, set_shared_config)
RGPU_EXPORT(cuFuncGetModule, get_module)
RGPU_EXPORT(cuFuncGetName, get_name)
RGPU_EXPORT(cuFuncGetParamInfo, parameter_info)
RGPU_EXPORT(cuFuncIsLoaded, is_loaded)
RGPU_EXPORT(cuFuncLoad, load_function)

}  // namespace

}  // namespace rgpu::softgpu::driver
