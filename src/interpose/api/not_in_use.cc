// SPDX-License-Identifier: Apache-2.0
// Questions about what no program can use here, and interest in it: answered as by a driver whose
// program does not use it (calls/not_in_use.h).
#include <atomic>

#include "calls/not_in_use.h"
#include "interpose/base/log.h"
#include "interpose/stub/by_hand.h"
#include "interpose/stub/stub.h"

namespace rgpu::interpose::own {

namespace {

// `answer`, once the driver is there.
template <class Answer> CUresult ask(Answer &&answer) { return session() ? answer() : not_ready(); }

template <class Handle> CUresult announce(calls::Interest interest, Handle *handle)
{
    void *made = nullptr;
    if (CUresult r = calls::announce(interest, &made)) return r;
    *handle = static_cast<Handle>(made);
    return CUDA_SUCCESS;
}

CUresult set_coredump(CUcoredumpSettings which, const void *value, const size_t *bytes)
{
    static std::atomic<bool> said;
    const CUresult r = calls::set_coredump(which, value, bytes);
    if (r == CUDA_ERROR_NOT_SUPPORTED && !said.exchange(true))
        say("no core dump of the GPU can be had here: the GPU server would write it");
    return r;
}

}  // namespace

CUresult cuStreamGetGreenCtx(CUstream stream, CUgreenCtx *green)
{
    CUcontext context;
    if (!green) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult r = own::cuStreamGetCtx(stream, &context)) return r;
    *green = nullptr;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetDevResource(CUdevice d, CUdevResource *resource, CUdevResourceType type)
{
    int sms = 0, major = 0;
    CUresult r = own::cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, d);
    if (!r) r = own::cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, d);
    return r ? r : calls::all_sms(resource, type, sms, major);
}

CUresult cuCtxGetDevResource(CUcontext context, CUdevResource *resource, CUdevResourceType type)
{
    if (!session()) return not_ready();
    const auto id = Handles::get().id(context);
    if (!context || !id) return CUDA_ERROR_INVALID_CONTEXT;
    return own::cuDeviceGetDevResource(Handles::get().at(*id)->device, resource, type);
}

CUresult cuCtxGetExecAffinity(CUexecAffinityParam *affinity, CUexecAffinityType)
{
    if (!session()) return not_ready();
    if (CUresult r = context_state()) return r;
    return affinity ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuLibraryGetUnifiedFunction(void **function, CUlibrary library, const char *name)
{
    if (!session()) return not_ready();
    if (!Handles::get().id(library)) return CUDA_ERROR_INVALID_HANDLE;
    return function && name ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceRegisterAsyncNotification(CUdevice d, CUasyncCallback callback, void *,
                                           CUasyncCallbackHandle *handle)
{
    if (!session()) return not_ready();
    if (!device(d)) return CUDA_ERROR_INVALID_DEVICE;
    if (!callback || !handle) return CUDA_ERROR_INVALID_VALUE;
    return announce(calls::Interest::memory_pressure, handle);
}

CUresult cuDeviceUnregisterAsyncNotification(CUdevice d, CUasyncCallbackHandle handle)
{
    if (!session()) return not_ready();
    if (!device(d)) return CUDA_ERROR_INVALID_DEVICE;
    return calls::withdraw(calls::Interest::memory_pressure, handle);
}

// --- core dumps

CUresult cuCoredumpGetAttribute(CUcoredumpSettings which, void *value, size_t *bytes)
{
    if (!session()) return not_ready();
    if (CUresult r = context_state()) return r;
    return calls::coredump_setting(which, value, bytes);
}

CUresult cuCoredumpGetAttributeGlobal(CUcoredumpSettings which, void *value, size_t *bytes)
{
    return ask([&] { return calls::coredump_setting(which, value, bytes); });
}

CUresult cuCoredumpSetAttribute(CUcoredumpSettings which, void *value, size_t *bytes)
{
    if (!session()) return not_ready();
    if (CUresult r = context_state()) return r;
    return set_coredump(which, value, bytes);
}

CUresult cuCoredumpSetAttributeGlobal(CUcoredumpSettings which, void *value, size_t *bytes)
{
    return ask([&] { return set_coredump(which, value, bytes); });
}

#if CUDA_VERSION >= 12090

// --- the driver's error log. It may be registered with before cuInit.

CUresult cuLogsRegisterCallback(CUlogsCallback callback, void *, CUlogsCallbackHandle *handle)
{
    if (!callback || !handle) return CUDA_ERROR_INVALID_VALUE;
    return announce(calls::Interest::log, handle);
}

CUresult cuLogsUnregisterCallback(CUlogsCallbackHandle handle)
{
    return calls::withdraw(calls::Interest::log, handle);
}

CUresult cuLogsCurrent(CUlogIterator *iterator, unsigned int flags)
{
    return calls::log_position(iterator, flags);
}

CUresult cuLogsDumpToFile(CUlogIterator *iterator, const char *path, unsigned int flags)
{
    return calls::log_to_file(iterator, path, flags);
}

CUresult cuLogsDumpToMemory(CUlogIterator *iterator, char *buffer, size_t *bytes,
                            unsigned int flags)
{
    return calls::log_to_memory(iterator, buffer, bytes, flags);
}

#endif

#if CUDA_VERSION >= 12080

CUresult cuCheckpointProcessGetState(int pid, CUprocessState *state)
{
    return calls::checkpoint_state(pid, state);
}

#endif

}  // namespace rgpu::interpose::own
