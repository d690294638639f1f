// SPDX-License-Identifier: Apache-2.0
// What NVML's functions are answered with between nvmlInit and nvmlShutdown: the pool, its devices,
// and values for the caller. Any thread.
#pragma once

#include <cstring>
#include <string>

#include "nvml/api.h"
#include "nvml/pool.h"

namespace rgpu::nvml {

// Carries `f(pool)` out between nvmlInit and nvmlShutdown.
template <class F> nvmlReturn_t with_pool(F &&f)
{
    Pool *p = pool_in_use();
    return p ? f(*p) : NVML_ERROR_UNINITIALIZED;
}

// Carries `f(device)` out for a live handle.
template <class F> nvmlReturn_t with(nvmlDevice_t handle, F &&f)
{
    return with_pool([&](Pool &p) -> nvmlReturn_t {
        Device *device = p.find(handle);
        return device ? f(*device) : NVML_ERROR_INVALID_ARGUMENT;
    });
}

template <class T, class V> nvmlReturn_t give(T *to, V value)
{
    if (!to) return NVML_ERROR_INVALID_ARGUMENT;
    *to = static_cast<T>(value);
    return NVML_SUCCESS;
}

inline nvmlReturn_t give_text(char *to, unsigned room, const std::string &text)
{
    if (!to) return NVML_ERROR_INVALID_ARGUMENT;
    if (room < text.size() + 1) return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(to, text.c_str(), text.size() + 1);
    return NVML_SUCCESS;
}

}  // namespace rgpu::nvml
