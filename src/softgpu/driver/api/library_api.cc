// SPDX-License-Identifier: Apache-2.0
// Libraries and their kernels: CUDA Driver API, "Library Management". What cudart loads all code
// with.
#include "softgpu/driver/api/export.h"
#include "softgpu/driver/base/log.h"
#include "softgpu/driver/image/image.h"
#include "softgpu/driver/image/jit_options.h"
#include "softgpu/driver/state/context.h"
#include "softgpu/driver/state/current.h"
#include "softgpu/driver/state/driver.h"
#include "softgpu/driver/state/library.h"

namespace rgpu::softgpu::driver {

namespace {

// --- loading

template <class Load>
CUresult load_with(CUlibrary *library, const JitOptions &options, const Load &load)
{
    if (!library || !options.valid()) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<const PtxModule> ptx;
    std::shared_ptr<Library> made;
    std::string log;
    CUresult rc = load(options.max_registers(), ptx, log);
    if (!rc) rc = Library::create(std::move(ptx), made, log);
    options.write_logs(log, rc ? ""
                               : "info: " + std::to_string(made->kernels().size()) +
                                     " kernels, each compiled at its first launch\n");
    if (rc) {
        complain("loading a library: %s", log.c_str());
        return rc;
    }
    for (const auto &[name, kernel] : made->kernels()) driver().kernels.add(kernel);
    *library = driver().libraries.add(made);
    return CUDA_SUCCESS;
}

CUresult load_data(CUlibrary *library, const void *image, CUjit_option *options, void **values,
                   unsigned count, CUlibraryOption *, void **, unsigned)
{
    if (!image) return CUDA_ERROR_INVALID_VALUE;
    return load_with(library, JitOptions(count, options, values),
                     [&](unsigned registers, auto &ptx, std::string &log) {
                         return load_image(image, driver().settings.compute_capability(), registers,
                                           ptx, log);
                     });
}

CUresult load_from_file(CUlibrary *library, const char *path, CUjit_option *options, void **values,
                        unsigned count, CUlibraryOption *, void **, unsigned)
{
    if (!path) return CUDA_ERROR_INVALID_VALUE;
    return load_with(library, JitOptions(count, options, values),
                     [&](unsigned registers, auto &ptx, std::string &log) {
                         return load_file(path, driver().settings.compute_capability(), registers,
                                          ptx, log);
                     });
}

CUresult unload(CUlibrary handle)
{
    auto l = driver().libraries.remove(handle);
    if (!l) return CUDA_ERROR_INVALID_HANDLE;
    l->unload();
    return CUDA_SUCCESS;
}

// --- what is in a library

CUresult get_kernel(CUkernel *kernel, CUlibrary handle, const char *name)
{
    auto l = driver().libraries.find(handle);
    if (!l) return CUDA_ERROR_INVALID_HANDLE;
    if (!kernel || !name) return CUDA_ERROR_INVALID_VALUE;
    auto it = l->kernels().find(name);
    if (it == l->kernels().end()) return CUDA_ERROR_NOT_FOUND;
    *kernel = reinterpret_cast<CUkernel>(it->second.get());
    return CUDA_SUCCESS;
}

CUresult kernel_count(unsigned *count, CUlibrary handle)
{
    auto l = driver().libraries.find(handle);
    if (!l) return CUDA_ERROR_INVALID_HANDLE;
    if (!count) return CUDA_ERROR_INVALID_VALUE;
    *count = static_cast<unsigned>(l->kernels().size());
    return CUDA_SUCCESS;
}

CUresult enumerate(CUkernel *kernels, unsigned room, CUlibrary handle)
{
    auto l = driver().libraries.find(handle);
    if (!l) return CUDA_ERROR_INVALID_HANDLE;
    if (!kernels || !room) return CUDA_ERROR_INVALID_VALUE;
    for (const auto &[name, k] : l->kernels()) {
        if (!room--) break;
        *kernels++ = reinterpret_cast<CUkernel>(k.get());
    }
    return CUDA_SUCCESS;
}

// Its module in the current context.
CUresult current_module(CUlibrary handle, std::shared_ptr<Module> &module)
{
    auto l = driver().libraries.find(handle);
    if (!l) return CUDA_ERROR_INVALID_HANDLE;
    Context *c;
    if (CUresult rc = usable_context(c)) return rc;
    return l->module(*c, module);
}

CUresult get_module(CUmodule *module, CUlibrary handle)
{
    std::shared_ptr<Module> m;
    if (CUresult rc = current_module(handle, m)) return rc;
    if (!module) return CUDA_ERROR_INVALID_VALUE;
    *module = m->handle();
    return CUDA_SUCCESS;
}

CUresult get_global(CUdeviceptr *address, size_t *bytes, CUlibrary handle, const char *name)
{
    std::shared_ptr<Module> m;
    if (CUresult rc = current_module(handle, m)) return rc;
    if (!name) return CUDA_ERROR_INVALID_VALUE;
    const Variable *v = m->variable(name);
    if (!v) return CUDA_ERROR_NOT_FOUND;
    if (address) *address = v->address;
    if (bytes) *bytes = v->bytes;
    return CUDA_SUCCESS;
}

CUresult get_managed(CUdeviceptr *address, size_t *bytes, CUlibrary handle, const char *name)
{
    auto l = driver().libraries.find(handle);
    if (!l) return CUDA_ERROR_INVALID_HANDLE;
    if (!name) return CUDA_ERROR_INVALID_VALUE;
    const Variable *v = l->managed(name);
    if (!v) return CUDA_ERROR_NOT_FOUND;
    if (address) *address = v->address;
    if (bytes) *bytes = v->bytes;
    return CUDA_SUCCESS;
}

// --- kernels

CUresult kernel_function(CUfunction *function, CUkernel handle)
{
    auto k = driver().kernels.find(handle);
    if (!k) return CUDA_ERROR_INVALID_HANDLE;
    if (!function) return CUDA_ERROR_INVALID_VALUE;
    Context *c;
    if (CUresult rc = usable_context(c)) return rc;
    std::shared_ptr<Function> f;
    if (CUresult rc = k->function(*c, f)) return rc;
    *function = f->handle();
    return CUDA_SUCCESS;
}

CUresult kernel_library(CUlibrary *library, CUkernel handle)
{
    auto k = driver().kernels.find(handle);
    if (!k) return CUDA_ERROR_INVALID_HANDLE;
    if (!library) return CUDA_ERROR_INVALID_VALUE;
    *library = reinterpret_cast<CUlibrary>(&k->library);
    return CUDA_SUCCESS;
}

CUresult kernel_name(const char **name, CUkernel handle)
{
    auto k = driver().kernels.find(handle);
    if (!k) return CUDA_ERROR_INVALID_HANDLE;
    if (!name) return CUDA_ERROR_INVALID_VALUE;
    *name = k->kernel.name.c_str();
    return CUDA_SUCCESS;
}

CUresult kernel_parameter_info(CUkernel handle, size_t index, size_t *offset, size_t *bytes)
{
    auto k = driver().kernels.find(handle);
    if (!k) return CUDA_ERROR_INVALID_HANDLE;
    if (!offset || index >= k->kernel.parameters.size()) return CUDA_ERROR_INVALID_VALUE;
    *offset = k->kernel.parameters[index].offset;
    if (bytes) *bytes = k->kernel.parameters[index].size;
    return CUDA_SUCCESS;
}

CUresult kernel_get_attribute(int *value, CUfunction_attribute which, CUkernel handle, CUdevice d)
{
    auto k = driver().kernels.find(handle);
    if (!k) return CUDA_ERROR_INVALID_HANDLE;
    if (!find_device(d)) return CUDA_ERROR_INVALID_DEVICE;
    return value ? k->attribute(which, d, *value) : CUDA_ERROR_INVALID_VALUE;
}

CUresult kernel_set_attribute(CUfunction_attribute which, int value, CUkernel handle, CUdevice d)
{
    auto k = driver().kernels.find(handle);
    if (!k) return CUDA_ERROR_INVALID_HANDLE;
    if (!find_device(d)) return CUDA_ERROR_INVALID_DEVICE;
    return k->set_attribute(which, d, value);
}

CUresult kernel_set_cache_config(CUkernel handle, CUfunc_cache, CUdevice d)
{
    if (!driver().kernels.find(handle)) return CUDA_ERROR_INVALID_HANDLE;
    return find_device(d) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

RGPU_EXPORT(cuLibraryLoadData, load_data)
RGPU_EXPORT(cuLibraryLoadFromFile, load_from_file)
RGPU_EXPORT(cuLibraryUnload, unload)
RGPU_EXPORT(cuLibraryGetKernel, get_kernel)
RGPU_EXPORT(cuLibraryGetKernelCount, kernel_count)
RGPU_EXPORT(cuLibraryEnumerateKernels, enumerate)
RGPU_EXPORT(cuLibraryGetModule, get_module)
RGPU_EXPORT(cuLibraryGetGlobal, get_global)
RGPU_EXPORT(cuLibraryGetManaged, get_managed)
RGPU_EXPORT(cuKernelGetFunction, kernel_function)
RGPU_EXPORT(cuKernelGetLibrary, kernel_library)
RGPU_EXPORT(cuKernelGetName, kernel_name)
RGPU_EXPORT(cuKernelGetParamInfo, kernel_parameter_info)
RGPU_EXPORT(cuKernelGetAttribute, kernel_get_attribute)
RGPU_EXPORT(cuKernelSetAttribute, kernel_set_attribute)
RGPU_EXPORT(cuKernelSetCacheConfig, kernel_set_cache_config)

}  // namespace

}  // namespace rgpu::softgpu::driver
