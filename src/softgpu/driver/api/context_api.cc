// SPDX-License-Identifier: Apache-2.0
// Contexts: CUDA Driver API, "Primary Context Management", "Context Management", "Peer Context
// Memory Access".
#include "softgpu/driver/api/context_end.h"
#include "softgpu/driver/api/export.h"
#include "softgpu/driver/graph/capture.h"
#include "softgpu/driver/state/context.h"
#include "softgpu/driver/state/current.h"
#include "softgpu/driver/state/driver.h"
#include "softgpu/driver/state/event.h"
#include "softgpu/driver/state/stream.h"

namespace rgpu::softgpu::driver {

namespace {

constexpr unsigned kFlagsMask = CU_CTX_FLAGS_MASK;

// --- primary contexts

CUresult primary_retain(CUcontext *context, CUdevice d)
{
    Device *device = find_device(d);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    device->primary->retain();
    *context = device->primary->handle();
    return CUDA_SUCCESS;
}

CUresult primary_release(CUdevice d)
{
    Device *device = find_device(d);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    const std::optional<int> left = device->primary->release();
    if (left == 0) end_context(*device->primary);
    return left ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult primary_reset(CUdevice d)
{
    Device *device = find_device(d);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    if (device->primary->alive()) end_context(*device->primary);
    return CUDA_SUCCESS;
}

CUresult primary_set_flags(CUdevice d, unsigned flags)
{
    Device *device = find_device(d);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    if (flags & ~kFlagsMask) return CUDA_ERROR_INVALID_VALUE;
    device->primary->flags = flags;
    return CUDA_SUCCESS;
}

CUresult primary_state(CUdevice d, unsigned *flags, int *active)
{
    Device *device = find_device(d);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    if (!flags || !active) return CUDA_ERROR_INVALID_VALUE;
    *flags = device->primary->flags;
    *active = device->primary->alive();
    return CUDA_SUCCESS;
}

// --- contexts that programs make

CUresult create(CUcontext *context, unsigned flags, CUdevice d, unsigned api_version)
{
    Device *device = find_device(d);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    if (!context || flags & ~kFlagsMask) return CUDA_ERROR_INVALID_VALUE;
    auto *c = new Context(*device, false, flags, api_version);
    push_context(c);
    *context = c->handle();
    return CUDA_SUCCESS;
}

CUresult create_v1(CUcontext *context, unsigned flags, CUdevice d)
{
    return create(context, flags, d, 3010);
}
CUresult create_v2(CUcontext *context, unsigned flags, CUdevice d)
{
    return create(context, flags, d, 3020);
}

CUresult create_v3(CUcontext *context, CUexecAffinityParam *, int affinities, unsigned flags,
                   CUdevice d)
{
    return affinities ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY : create(context, flags, d, 3020);
}

CUresult create_v4(CUcontext *context, CUctxCreateParams *params, unsigned flags, CUdevice d)
{
    if (params && params->numExecAffinityParams) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    if (params && params->cigParams) return CUDA_ERROR_NOT_SUPPORTED;
    return create(context, flags, d, 3020);
}

CUresult destroy(CUcontext handle)
{
    Context *c = find_context(handle);
    if (!c || c->is_primary) return CUDA_ERROR_INVALID_CONTEXT;
    if (current_context() == c) pop_context();
    forget_context(c);
    end_context(*c);
    return CUDA_SUCCESS;
}

// --- the calling thread's stack

CUresult get_current(CUcontext *context)
{
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    Context *c = current_context();
    *context = c ? c->handle() : nullptr;
    return CUDA_SUCCESS;
}

CUresult set_current(CUcontext handle)
{
    Context *c = nullptr;
    if (handle && !(c = find_context(handle))) return CUDA_ERROR_INVALID_CONTEXT;
    set_current_context(c);
    return CUDA_SUCCESS;
}

CUresult push(CUcontext handle)
{
    Context *c = find_context(handle);
    if (!c) return CUDA_ERROR_INVALID_CONTEXT;
    push_context(c);
    return CUDA_SUCCESS;
}

CUresult pop(CUcontext *context)
{
    Context *c = pop_context();
    if (!c) return CUDA_ERROR_INVALID_CONTEXT;
    if (context) *context = c->handle();
    return CUDA_SUCCESS;
}

// --- asking and setting. A null context is the current one.

CUresult named(CUcontext handle, Context *&c)
{
    c = handle ? find_context(handle) : current_context();
    return c ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult get_device_of(CUdevice *device, CUcontext handle)
{
    Context *c;
    if (!device) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult rc = named(handle, c)) return rc;
    *device = c->device.index;
    return CUDA_SUCCESS;
}

CUresult get_device(CUdevice *device) { return get_device_of(device, nullptr); }

CUresult synchronize_one(CUcontext handle)
{
    Context *c;
    if (CUresult rc = named(handle, c)) return rc;
    if (CUresult rc = c->usable()) return rc;
    if (CUresult rc = may_call_unsafe()) return rc;
    return c->synchronize();
}

CUresult synchronize() { return synchronize_one(nullptr); }

CUresult get_flags(unsigned *flags)
{
    Context *c;
    if (CUresult rc = usable_context(c)) return rc;
    if (!flags) return CUDA_ERROR_INVALID_VALUE;
    *flags = c->flags;
    return CUDA_SUCCESS;
}

CUresult set_flags(unsigned flags)
{
    Context *c;
    if (CUresult rc = usable_context(c)) return rc;
    if (flags & ~kFlagsMask) return CUDA_ERROR_INVALID_VALUE;
    c->flags = flags;
    return CUDA_SUCCESS;
}

CUresult get_id(CUcontext handle, unsigned long long *id)
{
    Context *c;
    if (CUresult rc = named(handle, c)) return rc;
    if (!id) return CUDA_ERROR_INVALID_VALUE;
    *id = c->id;
    return CUDA_SUCCESS;
}

CUresult api_version(CUcontext handle, unsigned *version)
{
    Context *c;
    if (CUresult rc = named(handle, c)) return rc;
    if (!version) return CUDA_ERROR_INVALID_VALUE;
    *version = c->api_version;
    return CUDA_SUCCESS;
}

CUresult get_limit(size_t *value, CUlimit which)
{
    Context *c;
    if (CUresult rc = usable_context(c)) return rc;
    return value ? c->limit(which, *value) : CUDA_ERROR_INVALID_VALUE;
}

CUresult set_limit(CUlimit which, size_t value)
{
    Context *c;
    if (CUresult rc = usable_context(c)) return rc;
    return c->set_limit(which, value);
}

CUresult get_cache_config(CUfunc_cache *config)
{
    Context *c;
    if (CUresult rc = usable_context(c)) return rc;
    if (!config) return CUDA_ERROR_INVALID_VALUE;
    *config = c->cache_config;
    return CUDA_SUCCESS;
}

CUresult set_cache_config(CUfunc_cache config)
{
    Context *c;
    if (CUresult rc = usable_context(c)) return rc;
    if (config < CU_FUNC_CACHE_PREFER_NONE || config > CU_FUNC_CACHE_PREFER_EQUAL)
        return CUDA_ERROR_INVALID_VALUE;
    c->cache_config = config;
    return CUDA_SUCCESS;
}

CUresult get_shared_config(CUsharedconfig *config)
{
    Context *c;
    if (CUresult rc = usable_context(c)) return rc;
    if (!config) return CUDA_ERROR_INVALID_VALUE;
    *config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
    return CUDA_SUCCESS;
}

CUresult set_shared_config(CUsharedconfig)
{
    Context *c;
    return usable_context(c);
}

CUresult priority_range(int *least, int *greatest)
{
    Context *c;
    if (CUresult rc = usable_context(c)) return rc;
    if (least) *least = kLeastPriority;
    if (greatest) *greatest = kGreatestPriority;
    return CUDA_SUCCESS;
}

CUresult reset_l2()
{
    Context *c;
    return usable_context(c);
}

// --- peers

CUresult peer_of_current(CUcontext handle, Context *&mine, Context *&peer)
{
    if (CUresult rc = usable_context(mine)) return rc;
    peer = find_context(handle);
    return peer && &peer->device != &mine->device ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult enable_peer(CUcontext handle, unsigned flags)
{
    Context *mine, *peer;
    if (flags) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult rc = peer_of_current(handle, mine, peer)) return rc;
    return mine->add_peer(peer) ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

CUresult disable_peer(CUcontext handle)
{
    Context *mine, *peer;
    if (CUresult rc = peer_of_current(handle, mine, peer)) return rc;
    return mine->remove_peer(peer) ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}

// --- events of a whole context

CUresult record_event(CUcontext handle, CUevent event)
{
    Context *c;
    if (CUresult rc = named(handle, c)) return rc;
    auto e = driver().events.find(event);
    if (!e || &e->context != c) return CUDA_ERROR_INVALID_HANDLE;
    e->record(*c->streams.legacy());
    return CUDA_SUCCESS;
}

RGPU_EXPORT(cuDevicePrimaryCtxRetain, primary_retain)
RGPU_EXPORT(cuDevicePrimaryCtxRelease, primary_release)
RGPU_EXPORT(cuDevicePrimaryCtxRelease_v2, primary_release)
RGPU_EXPORT(cuDevicePrimaryCtxReset, primary_reset)
RGPU_EXPORT(cuDevicePrimaryCtxReset_v2, primary_reset)
RGPU_EXPORT(cuDevicePrimaryCtxSetFlags, primary_set_flags)
RGPU_EXPORT(cuDevicePrimaryCtxSetFlags_v2, primary_set_flags)
RGPU_EXPORT(cuDevicePrimaryCtxGetState, primary_state)
RGPU_EXPORT(cuCtxCreate, create_v1)
RGPU_EXPORT(cuCtxCreate_v2, create_v2)
RGPU_EXPORT(cuCtxCreate_v3, create_v3)
RGPU_EXPORT(cuCtxCreate_v4, create_v4)
RGPU_EXPORT(cuCtxDestroy, destroy)
RGPU_EXPORT(cuCtxDestroy_v2, destroy)
RGPU_EXPORT(cuCtxGetCurrent, get_current)
RGPU_EXPORT(cuCtxSetCurrent, set_current)
RGPU_EXPORT(cuCtxPushCurrent, push)
RGPU_EXPORT(cuCtxPushCurrent_v2, push)
RGPU_EXPORT(cuCtxPopCurrent, pop)
RGPU_EXPORT(cuCtxPopCurrent_v2, pop)
RGPU_EXPORT(cuCtxGetDevice, get_device)
RGPU_EXPORT(cuCtxGetDevice_v2, get_device_of)
RGPU_EXPORT(cuCtxSynchronize, synchronize)
RGPU_EXPORT(cuCtxSynchronize_v2, synchronize_one)
RGPU_EXPORT(cuCtxGetFlags, get_flags)
RGPU_EXPORT(cuCtxSetFlags, set_flags)
RGPU_EXPORT(cuCtxGetId, get_id)
RGPU_EXPORT(cuCtxGetApiVersion, api_version)
RGPU_EXPORT(cuCtxGetLimit, get_limit)
RGPU_EXPORT(cuCtxSetLimit, set_limit)
RGPU_EXPORT(cuCtxGetCacheConfig, get_cache_config)
RGPU_EXPORT(cuCtxSetCacheConfig, set_cache_config)
RGPU_EXPORT(cuCtxGetSharedMemConfig, get_shared_config)
RGPU_EXPORT(cuCtxSetSharedMemConfig, set_shared_config)
RGPU_EXPORT(cuCtxGetStreamPriorityRange, priority_range)
RGPU_EXPORT(cuCtxResetPersistingL2Cache, reset_l2)
RGPU_EXPORT(cuCtxEnablePeerAccess, enable_peer)
RGPU_EXPORT(cuCtxDisablePeerAccess, disable_peer)
RGPU_EXPORT(cuCtxRecordEvent, record_event)

}  // namespace

}  // namespace rgpu::softgpu::driver
