// SPDX-License-Identifier: Apache-2.0
// Memory of the device and pinned memory: given, taken back and asked about.
#include <sys/mman.h>

#include <chrono>
#include <mutex>

#include "interpose/api/shareable.h"
#include "interpose/link/waiting.h"
#include "interpose/mirror/addresses.h"
#include "interpose/mirror/host_pools.h"
#include "interpose/mirror/mirror.h"
#include "interpose/span/address_space.h"
#include "interpose/span/relay.h"
#include "interpose/state/capture.h"
#include "interpose/state/client.h"
#include "interpose/state/placed_memory.h"
#include "interpose/stream/callback.h"
#include "interpose/stream/pools.h"
#include "interpose/stub/by_hand.h"
#include "interpose/stub/stub.h"
#include "wire/bands.h"

namespace rgpu::interpose {

namespace {

size_t whole_pages(size_t bytes) { return (bytes + 4095) & ~size_t{4095}; }

CUresult allocate_host(void **out, size_t bytes, unsigned flags)
{
    if (!session()) return not_ready();
    if (CUresult r = context_state()) return r;
    constexpr unsigned known = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP |
                               CU_MEMHOSTALLOC_WRITECOMBINED;
    if (!out || !bytes || flags & ~known) return CUDA_ERROR_INVALID_VALUE;
    CUdeviceptr base = 0;
    CUresult r = mirror::allocate(mirror::Kind::pinned, bytes, base);
    if (!r && flags & CU_MEMHOSTALLOC_DEVICEMAP && (r = mirror::share(base)))
        mirror::give_back(base);
    if (r == CUDA_ERROR_NOT_SUPPORTED && !(flags & CU_MEMHOSTALLOC_DEVICEMAP)) {
        // Where kernels cannot reach it, it still is memory for copies.
        void *p = mmap(nullptr, whole_pages(bytes), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        base = reinterpret_cast<uintptr_t>(p);
        r = p == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
    }
    if (r) return r;
    Unless noted([&] {
        mirror::find(base) ? mirror::give_back(base)
                           : (void)munmap(reinterpret_cast<void *>(base), whole_pages(bytes));
    });
    note_host({base, bytes, flags, true, current_context(), current_device()});
    noted.keep();
    *out = reinterpret_cast<void *>(base);
    return CUDA_SUCCESS;
}

// The last answer to cuMemGetInfo. Other programs on the GPU change it at any time, so a moment
// later nobody can tell whether it is new; but what this process did since must be in it, and what
// it learned.
struct MemoryInfo {
    static constexpr std::chrono::microseconds kFresh{100};

    std::mutex mutex;
    HandleId context = 0;
    uint32_t sent = 0;
    uint64_t heard = 0;
    std::chrono::steady_clock::time_point when;
    size_t free = 0, total = 0;
};

// Frees memory of the current context's server, which nobody knows here any more.
CUresult free_there(CUdeviceptr base)
{
    const NoFunctions here;
    const CUresult r = remote<CallId::cuMemFree_v2>(base);
    if (placed::has(base)) placed::freed(base, !r && here.held());
    return r;
}

}  // namespace

namespace own {

CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
    if (!session()) return not_ready();
    tell_closed(kAllClosed);
    auto &last = client_part<MemoryInfo>(Part::memory_info);
    std::lock_guard lock(last.mutex);
    const bool fresh = last.context && last.context == current_context() &&
                       last.sent == session()->frames_sent() && last.heard == session()->heard() &&
                       std::chrono::steady_clock::now() - last.when < MemoryInfo::kFresh;
    if (!fresh) {
        last.context = 0;
        const uint32_t sent = session()->frames_sent();
        const uint64_t heard = session()->heard();
        if (CUresult r = remote<CallId::cuMemGetInfo_v2>(&last.free, &last.total)) return r;
        last.sent = sent + 1, last.heard = heard + 1;
        last.when = std::chrono::steady_clock::now();
        last.context = current_context();
    }
    if (free) *free = last.free;
    if (total) *total = last.total;
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes)
{
    return in_one_space(
        out, [&] { return bytes; },
        [&] {
            const auto placed = placed::allocate(out, bytes);
            return placed ? *placed : remote<CallId::cuMemAlloc_v2>(out, bytes);
        },
        free_there, [&] { note_allocation(*out, bytes); });
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
                            unsigned element)
{
    if (!pitch) return CUDA_ERROR_INVALID_VALUE;
    return in_one_space(
        out, [&] { return *pitch * height; },
        [&] {
            const size_t row = wire::row_bytes(width, height, element);
            if (row && row <= wire::kMostPlaced && height <= wire::kMostPlaced)
                if (const auto placed = placed::allocate(out, row * height)) {
                    if (!*placed) *pitch = row;
                    return *placed;
                }
            return remote<CallId::cuMemAllocPitch_v2>(out, pitch, width, height, element);
        },
        free_there, [&] { note_allocation(*out, *pitch * height); });
}

CUresult cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned int flags)
{
    if (!session()) return not_ready();
    if (CUresult r = context_state()) return r;
    if (!out || !bytes || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
        return CUDA_ERROR_INVALID_VALUE;
    CUdeviceptr base = 0;
    if (CUresult r = mirror::allocate(mirror::Kind::managed, bytes, base)) return r;
    Unless noted([&] { mirror::give_back(base); });
    if (flags == CU_MEM_ATTACH_HOST) mirror::set_any_time(base, true);
    note_managed(base, bytes);
    noted.keep();
    *out = base;
    return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr base)
{
    if (!session()) return not_ready();
    if (CUresult r = context_state()) return r;
    if (!base) return CUDA_SUCCESS;
    if (const auto r = host_pools::free(base)) return *r;
    if (const auto r = pools::free(base)) return *r;
    relay::settle();
    const auto range = find_device(base);
    if (range && range->imported) return CUDA_ERROR_INVALID_VALUE;
    if (range && range->managed && range->base == base) {
        if (mirror::find(base)->kind != mirror::Kind::managed) return CUDA_ERROR_INVALID_VALUE;
        if (CUresult r = own::cuCtxSynchronize()) return r;
        if (!forget_allocation(base)) return CUDA_ERROR_INVALID_VALUE;
        mirror::give_back(base);
        return CUDA_SUCCESS;
    }
    if (!forget_allocation(base)) return CUDA_ERROR_INVALID_VALUE;
    // Another process must not open it any more once this call has returned; and whether a graph's
    // memory is allocated just now only the driver knows.
    const Waiting gone(client_counter(Counter::exported) != 0 || (range && range->graph));
    return free_there(base);
}

namespace {

// Memory that a stream gave; while there is a capture, perhaps a graph's.
void note_in_stream(CUdeviceptr base, size_t bytes)
{
    any_capture() ? note_graph_memory(base, bytes) : note_allocation(base, bytes);
}

// `by_driver`: where the memory is not divided up here.
template <class ByDriver> CUresult allocate_in_stream(CUdeviceptr *out, size_t bytes,
                                                      std::optional<CUmemoryPool> pool,
                                                      CUstream stream, ByDriver by_driver)
{
    bool is_ours = false;
    return in_one_space(
        out, [&] { return bytes; },
        [&] {
            const auto r = pools::allocate(out, bytes, pool, stream);
            is_ours = r.has_value();
            return r ? *r : by_driver();
        },
        [&](CUdeviceptr p) {
            if (!is_ours) remote<CallId::cuMemFreeAsync>(p, stream);
            if (is_ours) pools::free_behind(p, stream);
        },
        [&] { is_ours ? note_allocation(*out, bytes) : note_in_stream(*out, bytes); });
}

}  // namespace

CUresult cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream stream)
{
    return allocate_in_stream(out, bytes, {}, stream,
                              [&] { return remote<CallId::cuMemAllocAsync>(out, bytes, stream); });
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    if (host_pools::is_host(pool)) return host_pools::allocate(out, bytes, pool, stream);
    return allocate_in_stream(out, bytes, pool, stream, [&] {
        return remote<CallId::cuMemAllocFromPoolAsync>(out, bytes, pool, stream);
    });
}

CUresult cuMemFreeAsync(CUdeviceptr base, CUstream stream)
{
    if (!session()) return not_ready();
    if (!stream)
        if (CUresult r = context_state()) return r;
    if (!base) return CUDA_SUCCESS;
    if (const auto r = host_pools::free_behind(base, stream)) return *r;
    if (const auto r = pools::free_behind(base, stream)) return *r;
    const auto range = find_device(base);
    if (range && range->imported) return CUDA_ERROR_INVALID_VALUE;
    if (const auto owner = spanning() ? owner_of_address(base) : std::nullopt;
        owner && owner->server != here()) {
        if (CUresult r = own::cuStreamSynchronize(stream)) return r;
        const At at(owner->server, owner->context);
        return own::cuMemFree_v2(base);
    }
    if (!forget_allocation(base)) return CUDA_ERROR_INVALID_VALUE;
    const Waiting answered(range && range->graph);
    const CUresult r = remote<CallId::cuMemFreeAsync>(base, stream);
    if (placed::has(base)) placed::freed(base, false);
    return r;
}

CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned int flags)
{
    return allocate_host(out, bytes, flags);
}
CUresult cuMemAllocHost_v2(void **out, size_t bytes) { return allocate_host(out, bytes, 0); }
CUresult cuMemAllocHost(void **out, unsigned int bytes) { return allocate_host(out, bytes, 0); }

namespace {

// Copies of other servers' streams that use memory of the program are over.
void settle_elsewhere()
{
    relay::settle();
    if (!spanning()) return;
    for (unsigned s = 0; s < server_count(); s++)
        if (s != here()) session_at(s)->wait_for_copies();
}

}  // namespace

CUresult cuMemFreeHost(void *p)
{
    if (!session()) return not_ready();
    if (host_pools::owns(reinterpret_cast<uintptr_t>(p))) return CUDA_ERROR_INVALID_VALUE;
    const auto range = forget_host(reinterpret_cast<uintptr_t>(p), true);
    if (!range) return CUDA_ERROR_INVALID_VALUE;
    // Work that still reads or writes these pages must end before they go, as in CUDA.
    const At at(Handles::get().at(range->context)->server);
    CUresult r = current_context() && is_here(current_context()) ? own::cuCtxSynchronize()
                                                                 : CUDA_SUCCESS;
    settle_elsewhere();
    if (mirror::find(range->base))
        mirror::give_back(range->base);
    else
        munmap(p, whole_pages(range->bytes));
    return r;
}

CUresult cuMemHostGetFlags(unsigned int *flags, void *p)
{
    if (!session()) return not_ready();
    auto range = find_host(p);
    if (!flags || !range || !range->allocated || range->mapped) return CUDA_ERROR_INVALID_VALUE;
    // With unified addressing all of it is mapped, CUDA says.
    *flags = range->flags | CU_MEMHOSTALLOC_DEVICEMAP;
    return CUDA_SUCCESS;
}

CUresult cuMemHostRegister_v2(void *p, size_t bytes, unsigned int flags)
{
    if (!session()) return not_ready();
    if (CUresult r = context_state()) return r;
    constexpr unsigned kFlags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                                CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
    if (!p || !bytes || flags & ~kFlags) return CUDA_ERROR_INVALID_VALUE;
    if (find_host(p)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    auto base = reinterpret_cast<uintptr_t>(p);
    note_host({base, bytes, flags, false, current_context(), current_device()});
    mirror::note_registration(base, 1);
    return CUDA_SUCCESS;
}
CUresult cuMemHostRegister(void *p, size_t bytes, unsigned int flags)
{
    return own::cuMemHostRegister_v2(p, bytes, flags);
}

CUresult cuMemHostUnregister(void *p)
{
    if (!session()) return not_ready();
    const auto base = reinterpret_cast<uintptr_t>(p);
    auto range = find_host(p);
    if (!range || range->allocated || range->base != base)
        return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    settle_elsewhere();
    // Kernels that use it must end before, as in CUDA.
    if (mirror::device_address(p))
        if (CUresult r = own::cuCtxSynchronize()) return r;
    for (unsigned s = 0; spanning() && s < server_count(); s++) {
        const At at(s);
        const auto mirror = mirror::device_address(p);
        if (const auto b = mirror ? mirror::find(*mirror) : std::nullopt;
            b && is_here(b->context)) {
            const At in(s, b->context);
            own::cuCtxSynchronize();
        }
    }
    if (!forget_host(base, false)) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    mirror::note_registration(base, -1);
    return CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *p, unsigned int flags)
{
    if (!session()) return not_ready();
    if (CUresult r = context_state()) return r;
    if (!out || flags) return CUDA_ERROR_INVALID_VALUE;
    const auto host = reinterpret_cast<uintptr_t>(p);
    auto range = find_host(p);
    if (!range) {  // managed memory is its own
        auto b = mirror::find(host);
        *out = host;
        return b && b->kind == mirror::Kind::managed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    CUdeviceptr device = range->base;
    if (!range->allocated)
        if (CUresult r = mirror::mirror_registered(*range, device)) return r;
    if (!mirror::find(device)) return CUDA_ERROR_NOT_SUPPORTED;
    if (CUresult r = mirror::must_be_here(device)) return r;
    if (CUresult r = mirror::share(device)) return r;
    *out = device + (host - range->base);
    return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr address)
{
    if (!session()) return not_ready();
    auto range = find_device(address);
    if (!range) return remote<CallId::cuMemGetAddressRange_v2>(base, bytes, address);
    if (base) *base = range->base;
    if (bytes) *bytes = range->bytes;
    return CUDA_SUCCESS;
}

CUresult cuLibraryGetGlobal(CUdeviceptr *address, size_t *bytes, CUlibrary library,
                            const char *name)
{
    CUdeviceptr a = 0;
    size_t n = 0;
    CUresult r = remote<CallId::cuLibraryGetGlobal>(&a, &n, library, name);
    if (r) return r;
    if (!is_known_here(a)) note_allocation(a, n);
    if (address) *address = a;
    if (bytes) *bytes = n;
    return CUDA_SUCCESS;
}

}  // namespace own

}  // namespace rgpu::interpose
