// SPDX-License-Identifier: Apache-2.0
// Opens librgpu-ptx.so, which holds LLVM, when the first kernel must be compiled.
#include <cpuid.h>
#include <dlfcn.h>

#include <cstdlib>
#include <mutex>
#include <string>

#include "softgpu/compile/compile.h"
#include "softgpu/lower/module.h"

// Defined where the back end is linked in (unit tests).
// NOLINTNEXTLINE(readability-redundant-declaration): the header's is not weak
extern "C" __attribute__((weak)) rgpu_compile_ir_function rgpu_compile_ir;

namespace rgpu::softgpu::lower {

namespace {

struct Backend {
    rgpu_compile_ir_function *compile = nullptr;
    std::string error;
};

// The folder that this code was loaded from.
std::string own_folder()
{
    Dl_info self;
    static const char here = 0;
    if (!dladdr(&here, &self) || !self.dli_fname) return {};
    std::string path = self.dli_fname;
    size_t slash = path.rfind('/');
    return slash == path.npos ? "." : path.substr(0, slash);
}

Backend open()
{
    Backend b;
    if (rgpu_compile_ir) {
        b.compile = rgpu_compile_ir;
        return b;
    }
    const char *set = getenv("RGPU_PTX_COMPILER");
    std::string path = set ? set : own_folder() + "/librgpu-ptx.so";
    // Never closed. Local, so that its LLVM does not meet another one in the program.
    void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle)
        b.compile = reinterpret_cast<rgpu_compile_ir_function *>(dlsym(handle, "rgpu_compile_ir"));
    if (!b.compile) {
        const char *why = dlerror();
        b.error = "the PTX compiler " + path + " cannot be opened (" + (why ? why : "unknown") +
                  "); RGPU_PTX_COMPILER names another one";
    }
    return b;
}

}  // namespace

Result<std::vector<uint8_t>> compile_ir(const std::string &ir)
{
    static const Backend backend = open();
    if (!backend.compile) return Error{ErrorKind::unavailable, backend.error};
    std::vector<uint8_t> object;
    char message[2048] = "";
    auto done = [](void *context, const uint8_t *bytes, size_t n) {
        static_cast<std::vector<uint8_t> *>(context)->assign(bytes, bytes + n);
    };
    if (backend.compile(ir.data(), ir.size(), done, &object, message, sizeof message))
        return Error{ErrorKind::internal, message};
    return object;
}

const std::string &host_cpu()
{
    static const std::string id = [] {
        std::string s;
        unsigned a = 0, b = 0, c = 0, d = 0;
        auto add = [&](std::initializer_list<unsigned> words) {
            for (unsigned w : words) s += " " + std::to_string(w);
        };
        if (__get_cpuid(1, &a, &b, &c, &d)) add({a, c, d});  // b holds the core's number
        if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) add({a, b, c, d});
        if (__get_cpuid_count(7, 1, &a, &b, &c, &d)) add({a, b, c, d});
        if (__get_cpuid(0x80000001, &a, &b, &c, &d)) add({a, c, d});
        return s;
    }();
    return id;
}

}  // namespace rgpu::softgpu::lower
