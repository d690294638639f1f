// SPDX-License-Identifier: Apache-2.0
// The calls that the band serves, in front of the driver's.
#include <algorithm>
#include <cstring>
#include <tuple>

#include "worker/bands/bands.h"
#include "worker/driver/context_calls.h"

namespace rgpu::worker {

namespace {

Bands *the_bands = nullptr;  // the process's

#define REAL(name) (the_bands->real.call<CallId::name>())

// --- what is asked about memory

template <class T> CUresult store(void *to, T value)
{
    memcpy(to, &value, sizeof value);
    return CUDA_SUCCESS;
}

// What the driver says of virtual memory is not what it says of memory that it placed itself.
CUresult attribute(void *to, CUpointer_attribute which, CUdeviceptr address,
                   const Bands::Memory &memory)
{
    if (!to || !memory.bytes) return CUDA_ERROR_INVALID_VALUE;
    switch (which) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: return store(to, memory.context);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID: return store<unsigned long long>(to, memory.base);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR: return store<CUdeviceptr>(to, memory.base);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE: return store<size_t>(to, memory.bytes);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        return store<unsigned>(to, !memory.imported);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: return store<unsigned long long>(to, 0);
    default: return REAL(cuPointerGetAttribute)(to, which, address);
    }
}

CUresult get_attribute(void *to, CUpointer_attribute which, CUdeviceptr address)
{
    const auto memory = the_bands->find(address);
    return memory ? attribute(to, which, address, *memory)
                  : REAL(cuPointerGetAttribute)(to, which, address);
}

CUresult get_attributes(unsigned count, CUpointer_attribute *which, void **to, CUdeviceptr address)
{
    constexpr CUdeviceptr kNobodys = 1;
    const auto memory = the_bands->find(address);
    const bool is_empty = memory && !memory->bytes;
    const CUresult r =
        REAL(cuPointerGetAttributes)(count, which, to, is_empty ? kNobodys : address);
    if (is_empty) return r;
    for (unsigned i = 0; memory && !r && i < count; i++)
        attribute(to[i], which[i], address, *memory);
    return r;
}

CUresult get_range(CUdeviceptr *base, size_t *bytes, CUdeviceptr address)
{
    CUcontext current = nullptr;
    REAL(cuCtxGetCurrent)(&current);
    const auto memory = current ? the_bands->find(address) : std::nullopt;
    if (!memory) return REAL(cuMemGetAddressRange_v2)(base, bytes, address);
    if (!memory->bytes) return CUDA_ERROR_NOT_FOUND;
    if (base) *base = memory->base;
    if (bytes) *bytes = memory->bytes;
    return CUDA_SUCCESS;
}

// The client's credit is memory that it can have.
CUresult memory_info(size_t *free, size_t *total)
{
    CUdevice device = -1;
    size_t left = 0, all = 0;
    if (CUresult r = REAL(cuMemGetInfo_v2)(&left, &all)) return r;
    if (!REAL(cuCtxGetDevice)(&device))
        left = std::min<size_t>(all, left + the_bands->credit(device));
    if (free) *free = left;
    if (total) *total = all;
    return CUDA_SUCCESS;
}

// Of virtual memory alone, which the program does not know this to be.
CUresult retain(CUmemGenericAllocationHandle *handle, void *address)
{
    return the_bands->find(reinterpret_cast<CUdeviceptr>(address))
               ? CUDA_ERROR_INVALID_VALUE
               : REAL(cuMemRetainAllocationHandle)(handle, address);
}

CUresult get_access(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr address)
{
    return the_bands->find(address) ? CUDA_ERROR_INVALID_VALUE
                                    : REAL(cuMemGetAccess)(flags, location, address);
}

// --- contexts and captures

CUresult retain_primary(CUcontext *context, CUdevice device)
{
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    CUresult r = REAL(cuDevicePrimaryCtxRetain)(context, device);
    if (!r) the_bands->made(*context, device);
    return r;
}

template <CallId Id> CUresult end_primary(CUdevice device)
{
    const PrimaryContext primary(the_bands->real, device);
    const CUresult r = the_bands->real.call<Id>()(device);
    if (!r)
        if (CUcontext context = primary.ended()) the_bands->ended(context);
    return r;
}

template <CallId Id> void watch_made(Driver &driver)
{
    driver.replace<Id>([](CUcontext *context, auto... a) -> CUresult {
        if (!context) return CUDA_ERROR_INVALID_VALUE;
        CUresult r = the_bands->real.call<Id>()(context, a...);
        if (!r) the_bands->made(*context, std::get<sizeof...(a) - 1>(std::tuple(a...)));
        return r;
    });
}

template <CallId Id> void watch_ended(Driver &driver)
{
    driver.replace<Id>([](CUcontext context) -> CUresult {
        CUresult r = the_bands->real.call<Id>()(context);
        if (!r) the_bands->ended(context);
        return r;
    });
}

template <CallId Id> void watch_capture(Driver &driver)
{
    driver.replace<Id>([](CUstream stream, auto... a) -> CUresult {
        CUresult r = the_bands->real.call<Id>()(stream, a...);
        if (!r) the_bands->capture_begins(stream);
        return r;
    });
}

template <CallId Id> void watch_capture_end(Driver &driver)
{
    driver.replace<Id>([](CUstream stream, auto... a) -> CUresult {
        the_bands->capture_ends(stream);
        return the_bands->real.call<Id>()(stream, a...);
    });
}

void put_memory_in_front(Driver &driver)
{
    driver.replace<CallId::cuMemAlloc_v2>(
        [](CUdeviceptr *out, size_t bytes) { return the_bands->allocate(out, bytes); });
    driver.replace<CallId::cuMemAllocPitch_v2>(
        [](CUdeviceptr *out, size_t *pitch, size_t width, size_t height, unsigned element) {
            return the_bands->allocate_pitch(out, pitch, width, height, element);
        });
    driver.replace<CallId::cuMemFree_v2>([](CUdeviceptr p) { return the_bands->free(p); });
    driver.replace<CallId::cuMemFreeAsync>([](CUdeviceptr p, CUstream s) {
        return the_bands->free_in_stream(p, s, CU_STREAM_LEGACY, REAL(cuMemFreeAsync));
    });
    driver.replace<CallId::cuMemFreeAsync_ptsz>([](CUdeviceptr p, CUstream s) {
        return the_bands->free_in_stream(p, s, CU_STREAM_PER_THREAD, REAL(cuMemFreeAsync_ptsz));
    });
    driver.replace<CallId::cuMemAddressReserve>([](CUdeviceptr *out, size_t bytes, size_t alignment,
                                                   CUdeviceptr hint, unsigned long long flags) {
        return the_bands->reserve(out, bytes, alignment, hint, flags);
    });
    driver.replace<CallId::cuMemAddressFree>(
        [](CUdeviceptr p, size_t bytes) { return the_bands->unreserve(p, bytes); });
    driver.replace<CallId::cuMemMap>(
        [](CUdeviceptr p, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
           unsigned long long flags) { return the_bands->map(p, bytes, offset, handle, flags); });
    driver.replace<CallId::cuMemUnmap>(
        [](CUdeviceptr p, size_t bytes) { return the_bands->unmap(p, bytes); });
}

void put_handles_in_front(Driver &driver)
{
    driver.replace<CallId::cuIpcGetMemHandle>(
        [](CUipcMemHandle *out, CUdeviceptr p) { return the_bands->get_ipc_handle(out, p); });
    driver.replace<CallId::cuIpcOpenMemHandle>(
        [](CUdeviceptr *out, CUipcMemHandle handle, unsigned flags) {
            return the_bands->open_ipc_handle<CallId::cuIpcOpenMemHandle>(out, handle, flags);
        });
    driver.replace<CallId::cuIpcOpenMemHandle_v2>(
        [](CUdeviceptr *out, CUipcMemHandle handle, unsigned flags) {
            return the_bands->open_ipc_handle<CallId::cuIpcOpenMemHandle_v2>(out, handle, flags);
        });
    driver.replace<CallId::cuIpcCloseMemHandle>(
        [](CUdeviceptr p) { return the_bands->close_ipc_handle(p); });
}

void put_contexts_in_front(Driver &driver)
{
    driver.replace<CallId::cuDevicePrimaryCtxRetain>(retain_primary);
    PrimaryContextEnders::each([&]<CallId Id> { driver.replace<Id>(end_primary<Id>); });
    ContextMakers::each([&]<CallId Id> { watch_made<Id>(driver); });
    ContextEnders::each([&]<CallId Id> { watch_ended<Id>(driver); });
    watch_capture<CallId::cuStreamBeginCapture>(driver);
    watch_capture<CallId::cuStreamBeginCapture_ptsz>(driver);
    watch_capture<CallId::cuStreamBeginCapture_v2>(driver);
    watch_capture<CallId::cuStreamBeginCapture_v2_ptsz>(driver);
    watch_capture<CallId::cuStreamBeginCaptureToGraph>(driver);
    watch_capture<CallId::cuStreamBeginCaptureToGraph_ptsz>(driver);
    watch_capture_end<CallId::cuStreamEndCapture>(driver);
    watch_capture_end<CallId::cuStreamEndCapture_ptsz>(driver);
}

}  // namespace

Bands *bands() { return the_bands; }

void put_bands_in_front(Driver &driver, const std::string &name)
{
    the_bands = new Bands(driver, name);
    put_memory_in_front(driver);
    put_handles_in_front(driver);
    put_contexts_in_front(driver);
    driver.replace<CallId::cuPointerGetAttribute>(get_attribute);
    driver.replace<CallId::cuPointerGetAttributes>(get_attributes);
    driver.replace<CallId::cuMemGetAddressRange_v2>(get_range);
    driver.replace<CallId::cuMemGetInfo_v2>(memory_info);
    driver.replace<CallId::cuMemRetainAllocationHandle>(retain);
    driver.replace<CallId::cuMemGetAccess>(get_access);
}

}  // namespace rgpu::worker
