// SPDX-License-Identifier: Apache-2.0
// The linker: CUDA Driver API, cuLink*. What it makes is PTX text again, which cuModuleLoadData
// takes: so it describes itself, and what a program stores of it stays readable.
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

#include "softgpu/driver/api/export.h"
#include "softgpu/driver/base/log.h"
#include "softgpu/driver/image/device_runtime.h"
#include "softgpu/driver/image/fatbin.h"
#include "softgpu/driver/image/image.h"
#include "softgpu/driver/image/jit_options.h"
#include "softgpu/driver/state/context.h"
#include "softgpu/driver/state/current.h"
#include "softgpu/driver/state/driver.h"

namespace rgpu::softgpu::driver {

class Link {
public:
    Link(unsigned count, CUjit_option *options, void **values) : options(count, options, values) {}

    const JitOptions options;
    std::mutex mutex;
    std::vector<std::string> inputs;
    std::string image;  // with its final zero, once complete
};

namespace {

CUresult fail(const Link &l, CUresult rc, const std::string &log)
{
    l.options.write_logs(log);
    complain("linking: %s", log.c_str());
    return rc;
}

CUresult create(unsigned count, CUjit_option *options, void **values, CUlinkState *state)
{
    Context *c;
    if (CUresult rc = usable_context(c)) return rc;
    if (!state || !JitOptions(count, options, values).valid()) return CUDA_ERROR_INVALID_VALUE;
    *state = driver().links.add(std::make_shared<Link>(count, options, values));
    return CUDA_SUCCESS;
}

// The host's objects and archives of them: the fat binaries that lie in them. What a library lacks
// will be missed by name.
CUresult add_host_code(Link &l, const std::string &bytes, unsigned registers, bool must_have_ptx)
{
    std::string log = "the object holds no device code";
    bool found = false;
    for (auto fatbin :
         find_fatbins({reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()})) {
        Result<std::string> ptx = best_ptx(fatbin, driver().settings.compute_capability());
        if (!ptx) {
            log = ptx.error().text;
            continue;
        }
        if (CUresult rc = limit_registers(*ptx, registers, log)) return fail(l, rc, log);
        l.inputs.push_back(std::move(*ptx));
        found = true;
    }
    return found || !must_have_ptx ? CUDA_SUCCESS : fail(l, CUDA_ERROR_NO_BINARY_FOR_GPU, log);
}

// An input's own options come before those of the link.
CUresult add(Link &l, CUjitInputType type, const std::string &bytes, const JitOptions &own)
{
    const unsigned registers = own.max_registers() ? own.max_registers()
                                                   : l.options.max_registers();
    std::lock_guard lock(l.mutex);
    if (!l.image.empty()) return CUDA_ERROR_INVALID_VALUE;
    std::string ptx, log;
    switch (type) {
    // Up to the first NUL. NOLINTNEXTLINE(readability-redundant-string-cstr)
    case CU_JIT_INPUT_PTX: ptx = bytes.c_str(); break;
    case CU_JIT_INPUT_OBJECT:
        if (bytes.starts_with("\x7f"
                              "ELF"))
            return add_host_code(l, bytes, registers, true);
        [[fallthrough]];
    case CU_JIT_INPUT_FATBINARY:
        if (bytes.size() < 16 || fatbin_bytes(bytes.data()) > bytes.size())
            return fail(l, CUDA_ERROR_INVALID_IMAGE, "an input is cut short");
        if (CUresult rc = find_ptx(bytes.c_str(), driver().settings.compute_capability(), ptx, log))
            return fail(l, rc, log);
        break;
    case CU_JIT_INPUT_CUBIN:
        return fail(l, CUDA_ERROR_NO_BINARY_FOR_GPU, "machine code cannot run on this device");
    case CU_JIT_INPUT_LIBRARY:
        l.inputs.push_back(kDeviceRuntime);
        return add_host_code(l, bytes, registers, false);
    default:
        return fail(l, CUDA_ERROR_NOT_SUPPORTED,
                    "only PTX, fat binaries, objects and libraries can be linked");
    }
    if (CUresult rc = limit_registers(ptx, registers, log)) return fail(l, rc, log);
    l.inputs.push_back(std::move(ptx));
    return CUDA_SUCCESS;
}

CUresult add_data(CUlinkState state, CUjitInputType type, void *data, size_t bytes, const char *,
                  unsigned count, CUjit_option *options, void **values)
{
    auto l = driver().links.find(state);
    if (!l) return CUDA_ERROR_INVALID_HANDLE;
    const JitOptions own(count, options, values);
    if (!data || !bytes || !own.valid()) return CUDA_ERROR_INVALID_VALUE;
    return add(*l, type, std::string(static_cast<const char *>(data), bytes), own);
}

CUresult add_file(CUlinkState state, CUjitInputType type, const char *path, unsigned count,
                  CUjit_option *options, void **values)
{
    auto l = driver().links.find(state);
    if (!l) return CUDA_ERROR_INVALID_HANDLE;
    const JitOptions own(count, options, values);
    if (!path || !own.valid()) return CUDA_ERROR_INVALID_VALUE;
    std::ifstream file(path, std::ios::binary);
    if (!file) return fail(*l, CUDA_ERROR_FILE_NOT_FOUND, std::string(path) + ": cannot be read");
    const std::string bytes(std::istreambuf_iterator<char>(file), {});
    if (bytes.empty()) return fail(*l, CUDA_ERROR_INVALID_IMAGE, std::string(path) + ": is empty");
    return add(*l, type, bytes, own);
}

CUresult complete(CUlinkState state, void **image, size_t *bytes)
{
    auto l = driver().links.find(state);
    if (!l) return CUDA_ERROR_INVALID_HANDLE;
    if (!image) return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard lock(l->mutex);
    if (l->inputs.empty()) return CUDA_ERROR_INVALID_VALUE;
    Result<std::string> linked = PtxModule::link(l->inputs);
    if (!linked) return fail(*l, to_result(linked.error()), linked.error().text);
    Result<std::shared_ptr<const PtxModule>> parsed = PtxModule::parse(*linked);
    if (!parsed) return fail(*l, to_result(parsed.error()), parsed.error().text);
    l->image = "// rgpu software GPU image 1\n" + *linked;
    l->image.push_back(0);
    l->options.write_logs("", "info: " + std::to_string(l->inputs.size()) + " inputs linked\n");
    *image = l->image.data();
    if (bytes) *bytes = l->image.size();
    return CUDA_SUCCESS;
}

CUresult destroy(CUlinkState state)
{
    return driver().links.remove(state) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

RGPU_EXPORT(cuLinkCreate, create)
RGPU_EXPORT(cuLinkCreate_v2, create)
RGPU_EXPORT(cuLinkAddData, add_data)
RGPU_EXPORT(cuLinkAddData_v2, add_data)
RGPU_EXPORT(cuLinkAddFile, add_file)
RGPU_EXPORT(cuLinkAddFile_v2, add_file)
RGPU_EXPORT(cuLinkComplete, complete)
RGPU_EXPORT(cuLinkDestroy, destroy)

}  // namespace

}  // namespace rgpu::softgpu::driver
