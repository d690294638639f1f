// SPDX-License-Identifier: Apache-2.0
// Initialisation, versions, errors, entry points and the profiler's switches.
#include <cstring>

#include "calls/errors.h"
#include "calls/export_tables.h"
#include "interpose/api/entry.h"
#include "interpose/base/log.h"

namespace rgpu::interpose {

namespace {

CUresult look_up(const char *name, void **function, int version, cuuint64_t flags,
                 CUdriverProcAddressQueryResult *status)
{
    constexpr cuuint64_t kFlags = CU_GET_PROC_ADDRESS_LEGACY_STREAM |
                                  CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    if (!name || !function || flags & ~kFlags || flags == kFlags) return CUDA_ERROR_INVALID_VALUE;
    const int driver = driver_version();
    if (version > driver) return CUDA_ERROR_INVALID_VALUE;
    calls::Lookup found = calls::find(name, version, flags, driver, server_has);
    if (status) *status = found.status;
    const bool ok = found.status == CU_GET_PROC_ADDRESS_SUCCESS;
    *function = ok ? entry(found.id) : nullptr;
    return ok || status ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

}  // namespace

CUresult unsupported(CallId id)
{
    static std::array<std::atomic<bool>, calls::kCallCount> said{};
    const calls::CallInfo &c = calls::info(id);
    if (!said[static_cast<size_t>(id)].exchange(true))
        say("%s answers CUDA_ERROR_NOT_SUPPORTED: %s", c.symbol.data(), c.text.data());
    return CUDA_ERROR_NOT_SUPPORTED;
}

namespace own {

CUresult cuInit(unsigned int flags)
{
    if (flags) return CUDA_ERROR_INVALID_VALUE;
    CUresult r = connect_once();
    if (r == CUDA_SUCCESS) set_initialized();
    return r;
}

CUresult cuDriverGetVersion(int *version)
{
    if (!version) return CUDA_ERROR_INVALID_VALUE;
    *version = driver_version();  // may be asked before cuInit
    return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult code, const char **text)
{
    if (!text) return CUDA_ERROR_INVALID_VALUE;
    *text = calls::error_name(code);
    return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult code, const char **text)
{
    if (!text) return CUDA_ERROR_INVALID_VALUE;
    *text = calls::error_text(code);
    return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetProcAddress_v2(const char *name, void **function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status)
{
    return look_up(name, function, version, flags, status);
}

CUresult cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags)
{
    return look_up(name, function, version, flags, nullptr);
}

CUresult cuProfilerStart() { return CUDA_SUCCESS; }
CUresult cuProfilerStop() { return CUDA_SUCCESS; }

}  // namespace own

}  // namespace rgpu::interpose
