// SPDX-License-Identifier: Apache-2.0
#include "softgpu/driver/image/image.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "softgpu/driver/image/fatbin.h"

namespace rgpu::softgpu::driver {

namespace {

std::span<const uint8_t> fatbin_span(const void *fatbin)
{
    return {static_cast<const uint8_t *>(fatbin), fatbin_bytes(fatbin)};
}

CUresult from_fatbin(const void *fatbin, unsigned cc, std::string &ptx, std::string &log)
{
    Result<std::string> best = best_ptx(fatbin_span(fatbin), cc);
    if (!best) {
        log = best.error().text;
        return best.error().kind == ErrorKind::unsupported ? CUDA_ERROR_NO_BINARY_FOR_GPU
                                                           : CUDA_ERROR_INVALID_IMAGE;
    }
    ptx = std::move(*best);
    return CUDA_SUCCESS;
}

// nvcc -rdc=true: one fat binary for each object, whose PTX is linked. Those without PTX (the
// device linker's own) do not count.
CUresult from_objects(const void *const *objects, unsigned cc, std::string &ptx, std::string &log)
{
    std::vector<std::string> modules;
    for (; *objects; objects++) {
        std::string one;
        const CUresult rc = from_fatbin(*objects, cc, one, log);
        if (rc == CUDA_ERROR_NO_BINARY_FOR_GPU) continue;
        if (rc) return rc;
        modules.push_back(std::move(one));
    }
    if (modules.empty()) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    if (modules.size() == 1) {
        ptx = std::move(modules[0]);
        return CUDA_SUCCESS;
    }
    Result<std::string> linked = PtxModule::link(modules);
    if (!linked) {
        log = linked.error().text;
        return to_result(linked.error());
    }
    ptx = std::move(*linked);
    return CUDA_SUCCESS;
}

CUresult parse(const std::string &ptx, std::shared_ptr<const PtxModule> &module, std::string &log)
{
    Result<std::shared_ptr<const PtxModule>> parsed = PtxModule::parse(ptx);
    if (!parsed) {
        log = parsed.error().text;
        return to_result(parsed.error());
    }
    module = std::move(*parsed);
    return CUDA_SUCCESS;
}

}  // namespace

CUresult to_result(const Error &e)
{
    switch (e.kind) {
    case ErrorKind::invalid: return CUDA_ERROR_INVALID_PTX;
    case ErrorKind::unsupported: return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    case ErrorKind::unavailable: return CUDA_ERROR_JIT_COMPILER_NOT_FOUND;
    case ErrorKind::exhausted: return CUDA_ERROR_OUT_OF_MEMORY;
    default: return CUDA_ERROR_UNKNOWN;
    }
}

CUresult find_ptx(const void *image, unsigned cc, std::string &ptx, std::string &log)
{
    uint32_t magic;
    memcpy(&magic, image, sizeof magic);
    if (magic == kWrapperMagic) {
        FatbinWrapper w;
        memcpy(&w, image, sizeof w);
        if (w.version == 2 && w.objects) return from_objects(w.objects, cc, ptx, log);
        if (w.data) return from_fatbin(w.data, cc, ptx, log);
        log = "the fat binary's wrapper is empty";
        return CUDA_ERROR_INVALID_IMAGE;
    }
    if (magic == kFatbinMagic) return from_fatbin(image, cc, ptx, log);
    if (!memcmp(image,
                "\x7f"
                "ELF",
                4)) {
        log = "the image is machine code, which this device cannot run: load PTX";
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    const auto *text = static_cast<const char *>(image);
    if (!*text || !(isspace(static_cast<unsigned char>(*text)) || *text == '.' || *text == '/')) {
        log = "the image is neither PTX text nor a fat binary";
        return CUDA_ERROR_INVALID_IMAGE;
    }
    ptx = text;
    return CUDA_SUCCESS;
}

CUresult limit_registers(std::string &ptx, unsigned most, std::string &log)
{
    if (!most) return CUDA_SUCCESS;
    Result<std::string> limited = PtxModule::limit_registers(ptx, most);
    if (!limited) {
        log = limited.error().text;
        return to_result(limited.error());
    }
    ptx = std::move(*limited);
    return CUDA_SUCCESS;
}

CUresult load_image(const void *image, unsigned cc, unsigned max_registers,
                    std::shared_ptr<const PtxModule> &module, std::string &log)
{
    std::string ptx;
    if (CUresult rc = find_ptx(image, cc, ptx, log)) return rc;
    if (CUresult rc = limit_registers(ptx, max_registers, log)) return rc;
    return parse(ptx, module, log);
}

CUresult load_file(const char *path, unsigned cc, unsigned max_registers,
                   std::shared_ptr<const PtxModule> &module, std::string &log)
{
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        log = std::string(path) + ": cannot be read";
        return CUDA_ERROR_FILE_NOT_FOUND;
    }
    std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    uint32_t magic = 0;
    if (bytes.size() >= sizeof magic) memcpy(&magic, bytes.data(), sizeof magic);
    if (magic == kFatbinMagic && (bytes.size() < 16 || fatbin_bytes(bytes.data()) > bytes.size())) {
        log = std::string(path) + ": the fat binary is cut short";
        return CUDA_ERROR_INVALID_IMAGE;
    }
    if (magic == kWrapperMagic) {
        log = std::string(path) + ": a wrapper with addresses is no file";
        return CUDA_ERROR_INVALID_IMAGE;
    }
    bytes.insert(bytes.end(), 16, 0);
    return load_image(bytes.data(), cc, max_registers, module, log);
}

}  // namespace rgpu::softgpu::driver
