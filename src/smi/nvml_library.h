// SPDX-License-Identifier: Apache-2.0
// The libnvidia-ml.so.1 of this process: the one that LD_LIBRARY_PATH leads to, as for any program;
// else the one beside this program.
#pragma once

#include "nvml/api.h"

namespace rgpu::smi {

// False where there is none.
bool open_nvml();
void *nvml_symbol(const char *name);

template <class F, class... A> nvmlReturn_t ask_nvml(void *symbol, A... arguments)
{
    return symbol ? reinterpret_cast<F>(symbol)(arguments...) : NVML_ERROR_FUNCTION_NOT_FOUND;
}

// Calls a function of NVML by name: ASK(nvmlDeviceGetName, device, text, sizeof text).
#define ASK(name, ...) \
    ::rgpu::smi::ask_nvml<decltype(&::name)>(::rgpu::smi::nvml_symbol(#name) __VA_OPT__(, ) \
                                                 __VA_ARGS__)

}  // namespace rgpu::smi
