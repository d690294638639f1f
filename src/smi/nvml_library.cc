// SPDX-License-Identifier: Apache-2.0
#include "smi/nvml_library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <string>

namespace rgpu::smi {
namespace {

void *library = nullptr;

}  // namespace

bool open_nvml()
{
    library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    char path[4096];
    const ssize_t n = library ? 0 : readlink("/proc/self/exe", path, sizeof path);
    const std::string self(path, n > 0 ? static_cast<size_t>(n) : 0);
    if (!library && !self.empty())
        library =
            dlopen((self.substr(0, self.rfind('/')) + "/../interpose/libnvidia-ml.so.1").c_str(),
                   RTLD_NOW);
    return library;
}

void *nvml_symbol(const char *name) { return library ? dlsym(library, name) : nullptr; }

}  // namespace rgpu::smi
