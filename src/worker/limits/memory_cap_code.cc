// SPDX-License-Identifier: Apache-2.0
// Contexts and what is in them: modules, functions, streams, limits. Their sizes the driver alone
// knows.
#include <algorithm>

#include "worker/driver/context_calls.h"
#include "worker/limits/memory_cap_front.h"

namespace rgpu::worker::capped {

namespace {

// A context of NVIDIA's driver has some hundred MiB; the software GPU's has none.
MemoryCap::Bounds context_bounds()
{
    return {the_cap().is_software ? 0 : uint64_t{64} << 20, UINT64_MAX};
}
// A stream has a channel and its buffers.
constexpr MemoryCap::Bounds kStream{0, uint64_t{32} << 20};

// --- contexts

CUresult retain_primary(CUcontext *context, CUdevice device)
{
    Entry cap;
    if (!cap->has(device)) return REAL(cuDevicePrimaryCtxRetain)(context, device);
    unsigned flags = 0;
    int active = 0;
    auto call = [&] {
        CUresult r = REAL(cuDevicePrimaryCtxRetain)(context, device);
        if (!r) the_cap().contexts.made(device, *context);
        return r;
    };
    if (REAL(cuDevicePrimaryCtxGetState)(device, &flags, &active) || active) return call();
    return cap->measured(
        device, call,
        [&] {
            the_cap().contexts.ended(device, *context);
            return REAL(cuDevicePrimaryCtxRelease_v2)(device);
        },
        context_bounds());
}

// The primary context, if this call ended it.
template <CallId Id> CUresult end_primary(CUdevice device)
{
    Entry cap;
    auto end = [&] { return the_cap().real.call<Id>()(device); };
    if (!cap->has(device)) return end();
    const PrimaryContext primary(cap->real, device);
    CUresult r = cap->released(device, 0, end);
    if (!r)
        if (CUcontext context = primary.ended()) cap->forget_context(device, context);
    return r;
}

template <CallId Id> void measure_context(Driver &driver)
{
    driver.replace<Id>([](CUcontext *context, auto... a) -> CUresult {
        Entry cap;
        const int device = std::get<sizeof...(a) - 1>(std::tuple(a...));
        auto call = [&] { return the_cap().real.call<Id>()(context, a...); };
        if (!cap->has(device)) return call();
        return make_measured(
            device, context,
            [&] {
                CUresult r = call();
                if (!r) the_cap().contexts.made(device, *context);
                return r;
            },
            [&](CUcontext made) {
                the_cap().contexts.ended(device, made);
                return REAL(cuCtxDestroy_v2)(made);
            },
            context_bounds());
    });
}

template <CallId Id> CUresult destroy_context(CUcontext context)
{
    Entry cap;
    const int device = cap->contexts.device_of(context);
    auto end = [&] { return the_cap().real.call<Id>()(context); };
    if (device < 0) return end();
    CUresult r = end_measured(context, end);
    if (!r) cap->forget_context(device, context);
    return r;
}

// --- limits, which the driver turns into memory when it comes to it

uint64_t most_of(CUlimit limit, size_t value, int device)
{
    int processors = 1, threads = 1;
    switch (limit) {
    case CU_LIMIT_MALLOC_HEAP_SIZE:
    case CU_LIMIT_PRINTF_FIFO_SIZE: return value;
    case CU_LIMIT_STACK_SIZE:
        REAL(cuDeviceGetAttribute)(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
        REAL(cuDeviceGetAttribute)
        (&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, device);
        return times(times(value, static_cast<uint64_t>(processors)),
                     static_cast<uint64_t>(threads));
    default: return 0;
    }
}

CUresult set_limit(CUlimit limit, size_t value)
{
    Entry cap;
    const int device = cap->current_device();
    size_t old = 0;
    auto call = [&] { return REAL(cuCtxSetLimit)(limit, value); };
    if (!cap->has(device) || REAL(cuCtxGetLimit)(&old, limit)) return call();
    const uint64_t had = most_of(limit, old, device), wants = most_of(limit, value, device);
    const uint64_t more = wants - std::min(had, wants);
    if (more && (more > cap->cap(device) || !cap->take(device, more)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    cap->promise(device, more);
    CUresult r = cap->measured(device, call, [&] { return REAL(cuCtxSetLimit)(limit, old); });
    cap->give(device, cap->unpromise(device, r ? more : had - std::min(had, wants)));
    cap->contexts.launch_anew();  // they may take more now
    return r;
}

// --- functions, whose code and local memory come with the first launch

template <CallId Id, size_t Function> void measure_first(Driver &driver)
{
    driver.replace<Id>([](auto... a) -> CUresult {
        auto call = [&] { return the_cap().real.call<Id>()(a...); };
        if (!the_cap().is_strict()) return call();
        Entry cap;
        const auto function = std::get<Function>(std::tuple(a...));
        const int device = cap->current_device();
        return cap->contexts.is_first_launch(function, device) ? cap->measured(device, call)
                                                               : call();
    });
}

}  // namespace

void put_code_in_front(Driver &driver)
{
    driver.replace<CallId::cuDevicePrimaryCtxRetain>(retain_primary);
    PrimaryContextEnders::each([&]<CallId Id> { driver.replace<Id>(end_primary<Id>); });
    ContextMakers::each([&]<CallId Id> { measure_context<Id>(driver); });
    ContextEnders::each([&]<CallId Id> { driver.replace<Id>(destroy_context<Id>); });
    driver.replace<CallId::cuCtxSetLimit>(set_limit);

    measure_made<CallId::cuModuleLoad, CallId::cuModuleUnload>(driver);
    measure_made<CallId::cuModuleLoadData, CallId::cuModuleUnload>(driver);
    measure_made<CallId::cuModuleLoadDataEx, CallId::cuModuleUnload>(driver);
    measure_made<CallId::cuModuleLoadFatBinary, CallId::cuModuleUnload>(driver);
    measure_made<CallId::cuLibraryLoadData, CallId::cuLibraryUnload>(driver);
    measure_made<CallId::cuLibraryLoadFromFile, CallId::cuLibraryUnload>(driver);
    measure_waiting_end<CallId::cuModuleUnload>(driver);
    measure_waiting_end<CallId::cuLibraryUnload>(driver);
    // With lazy loading, these bring code and variables to the device.
    measure<CallId::cuModuleGetFunction>(driver);
    measure<CallId::cuModuleGetGlobal_v2>(driver);
    measure<CallId::cuModuleEnumerateFunctions>(driver);
    measure<CallId::cuLibraryGetModule>(driver);
    measure<CallId::cuLibraryGetGlobal>(driver);
    measure<CallId::cuLibraryGetManaged>(driver);
    measure<CallId::cuKernelGetFunction>(driver);
    measure<CallId::cuFuncLoad>(driver);
    measure_first<CallId::cuLaunchKernel, 0>(driver);
    measure_first<CallId::cuLaunchKernel_ptsz, 0>(driver);
    measure_first<CallId::cuLaunchKernelEx, 1>(driver);
    measure_first<CallId::cuLaunchKernelEx_ptsz, 1>(driver);
    measure_first<CallId::cuLaunchCooperativeKernel, 0>(driver);
    measure_first<CallId::cuLaunchCooperativeKernel_ptsz, 0>(driver);

    driver.replace<CallId::cuStreamCreate>([](CUstream *made, unsigned flags) -> CUresult {
        Entry cap;
        return make_measured(
            cap->current_device(), made, [&] { return REAL(cuStreamCreate)(made, flags); },
            REAL(cuStreamDestroy_v2), kStream);
    });
    driver.replace<CallId::cuStreamCreateWithPriority>(
        [](CUstream *made, unsigned flags, int priority) -> CUresult {
            Entry cap;
            return make_measured(
                cap->current_device(), made,
                [&] { return REAL(cuStreamCreateWithPriority)(made, flags, priority); },
                REAL(cuStreamDestroy_v2), kStream);
        });
    measure_end<CallId::cuStreamDestroy>(driver);
    measure_end<CallId::cuStreamDestroy_v2>(driver);
}

}  // namespace rgpu::worker::capped
