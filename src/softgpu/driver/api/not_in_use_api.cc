// SPDX-License-Identifier: Apache-2.0
// Questions about what the software GPU does not have, and interest in it (calls/not_in_use.h).
#include "calls/not_in_use.h"

#include <atomic>

#include "softgpu/driver/api/export.h"
#include "softgpu/driver/base/log.h"
#include "softgpu/driver/state/attributes.h"
#include "softgpu/driver/state/context.h"
#include "softgpu/driver/state/current.h"
#include "softgpu/driver/state/driver.h"
#include "softgpu/driver/state/library.h"
#include "softgpu/driver/state/stream.h"

namespace rgpu::softgpu::driver {

namespace {

CUresult stream_green_context(CUstream handle, CUgreenCtx *green)
{
    if (!green) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<Stream> stream;
    if (CUresult rc = find_stream(handle, stream)) return rc;
    *green = nullptr;
    return CUDA_SUCCESS;
}

CUresult device_resource(CUdevice d, CUdevResource *resource, CUdevResourceType type)
{
    Device *device = find_device(d);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    int sms = 0;
    device_attribute(*device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, sms);
    return calls::all_sms(resource, type, sms, driver().settings.major);
}

CUresult context_resource(CUcontext handle, CUdevResource *resource, CUdevResourceType type)
{
    Context *context = find_context(handle);
    return context ? device_resource(context->device.index, resource, type)
                   : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult execution_affinity(CUexecAffinityParam *affinity, CUexecAffinityType)
{
    Context *c;
    if (CUresult rc = usable_context(c)) return rc;
    return affinity ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY : CUDA_ERROR_INVALID_VALUE;
}

CUresult unified_function(void **function, CUlibrary handle, const char *name)
{
    if (!driver().libraries.find(handle)) return CUDA_ERROR_INVALID_HANDLE;
    return function && name ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;
}

template <class Handle> CUresult announce(calls::Interest interest, Handle *handle)
{
    void *made = nullptr;
    if (CUresult rc = calls::announce(interest, &made)) return rc;
    *handle = static_cast<Handle>(made);
    return CUDA_SUCCESS;
}

CUresult register_notification(CUdevice d, CUasyncCallback callback, void *,
                               CUasyncCallbackHandle *handle)
{
    if (!find_device(d)) return CUDA_ERROR_INVALID_DEVICE;
    if (!callback || !handle) return CUDA_ERROR_INVALID_VALUE;
    return announce(calls::Interest::memory_pressure, handle);
}

CUresult unregister_notification(CUdevice d, CUasyncCallbackHandle handle)
{
    if (!find_device(d)) return CUDA_ERROR_INVALID_DEVICE;
    return calls::withdraw(calls::Interest::memory_pressure, handle);
}

// --- core dumps

CUresult coredump(CUcoredumpSettings which, void *value, size_t *bytes)
{
    Context *c;
    if (CUresult rc = usable_context(c)) return rc;
    return calls::coredump_setting(which, value, bytes);
}

CUresult set_coredump_global(CUcoredumpSettings which, void *value, size_t *bytes)
{
    static std::atomic<bool> said;
    const CUresult rc = calls::set_coredump(which, value, bytes);
    if (rc == CUDA_ERROR_NOT_SUPPORTED && !said.exchange(true))
        complain("the software GPU makes no core dumps");
    return rc;
}

CUresult set_coredump(CUcoredumpSettings which, void *value, size_t *bytes)
{
    Context *c;
    if (CUresult rc = usable_context(c)) return rc;
    return set_coredump_global(which, value, bytes);
}

RGPU_EXPORT(cuStreamGetGreenCtx, stream_green_context)
RGPU_EXPORT(cuDeviceGetDevResource, device_resource)
RGPU_EXPORT(cuCtxGetDevResource, context_resource)
RGPU_EXPORT(cuCtxGetExecAffinity, execution_affinity)
RGPU_EXPORT(cuLibraryGetUnifiedFunction, unified_function)
RGPU_EXPORT(cuDeviceRegisterAsyncNotification, register_notification)
RGPU_EXPORT(cuDeviceUnregisterAsyncNotification, unregister_notification)
RGPU_EXPORT(cuCoredumpGetAttribute, coredump)
RGPU_EXPORT(cuCoredumpGetAttributeGlobal, calls::coredump_setting)
RGPU_EXPORT(cuCoredumpSetAttribute, set_coredump)
RGPU_EXPORT(cuCoredumpSetAttributeGlobal, set_coredump_global)

#if CUDA_VERSION >= 12090

CUresult register_log(CUlogsCallback callback, void *, CUlogsCallbackHandle *handle)
{
    if (!callback || !handle) return CUDA_ERROR_INVALID_VALUE;
    return announce(calls::Interest::log, handle);
}

CUresult unregister_log(CUlogsCallbackHandle handle)
{
    return calls::withdraw(calls::Interest::log, handle);
}

RGPU_EXPORT_AS(cuLogsRegisterCallback, register_log, kBeforeInit)
RGPU_EXPORT_AS(cuLogsUnregisterCallback, unregister_log, kBeforeInit)
RGPU_EXPORT_AS(cuLogsCurrent, calls::log_position, kBeforeInit)
RGPU_EXPORT_AS(cuLogsDumpToFile, calls::log_to_file, kBeforeInit)
RGPU_EXPORT_AS(cuLogsDumpToMemory, calls::log_to_memory, kBeforeInit)

#endif

#if CUDA_VERSION >= 12080
RGPU_EXPORT_AS(cuCheckpointProcessGetState, calls::checkpoint_state, kBeforeInit)
#endif

}  // namespace

}  // namespace rgpu::softgpu::driver
