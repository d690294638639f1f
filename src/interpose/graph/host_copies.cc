// SPDX-License-Identifier: Apache-2.0
// The shadows, by the box of host memory they stand for and by their addresses.
#include "interpose/graph/host_copies.h"

#include <atomic>
#include <map>
#include <mutex>
#include <tuple>

#include "interpose/base/log.h"
#include "interpose/state/client.h"
#include "interpose/state/process.h"
#include "interpose/stream/box.h"
#include "interpose/stub/by_hand.h"

namespace rgpu::interpose {

namespace {

// Where the program's side lies: context, direction, first byte, pitch, rows of a slice, and the
// box.
using Key = std::tuple<HandleId, bool, uintptr_t, size_t, size_t, size_t, size_t, size_t>;

struct Shadows {
    std::mutex mutex;
    std::map<Key, CUdeviceptr> by_box;
    std::map<CUdeviceptr, HostCopy> by_address;
    std::atomic<bool> any{false};
};

Shadows &shadows() { return client_part<Shadows>(Part::host_copies); }

bool is_host(CUmemorytype type, CUdeviceptr unified)
{
    return type == CU_MEMORYTYPE_HOST ||
           (type == CU_MEMORYTYPE_UNIFIED && !is_device_address(unified));
}

Key key_of(const CUDA_MEMCPY3D &c, bool to_device)
{
    const bool unified = (to_device ? c.srcMemoryType : c.dstMemoryType) == CU_MEMORYTYPE_UNIFIED;
    auto base = to_device
                    ? (unified ? uintptr_t{c.srcDevice} : reinterpret_cast<uintptr_t>(c.srcHost))
                    : (unified ? uintptr_t{c.dstDevice} : reinterpret_cast<uintptr_t>(c.dstHost));
    const size_t pitch = (to_device ? c.srcPitch : c.dstPitch)
                             ? (to_device ? c.srcPitch : c.dstPitch)
                             : c.WidthInBytes;
    const size_t rows = (to_device ? c.srcHeight : c.dstHeight)
                            ? (to_device ? c.srcHeight : c.dstHeight)
                            : c.Height;
    const size_t first = to_device ? c.srcXInBytes + pitch * (c.srcY + rows * c.srcZ)
                                   : c.dstXInBytes + pitch * (c.dstY + rows * c.dstZ);
    return {current_context(), to_device, base + first, pitch, rows,
            c.WidthInBytes,    c.Height,  c.Depth};
}

// The shadow for a box, with the lock held.
CUresult shadow_for(const CUDA_MEMCPY3D &c, bool to_device, CUdeviceptr &shadow)
{
    Shadows &all = shadows();
    const Key key = key_of(c, to_device);
    if (auto it = all.by_box.find(key); it != all.by_box.end()) {
        shadow = it->second;
        return CUDA_SUCCESS;
    }
    if (CUresult r = own::cuMemAlloc_v2(&shadow, c.WidthInBytes * c.Height * c.Depth)) return r;
    Unless noted([&] { own::cuMemFree_v2(shadow); });
    HostCopy copy;
    copy.to_device = to_device;
    copy.transfer = packed(c, shadow);
    if (to_device)
        source_from(copy.transfer, c);
    else
        destination_from(copy.transfer, c);
    // The copy first: what is found by its box is found by its address, too.
    all.by_address[shadow] = copy;
    Unless whole([&] { all.by_address.erase(shadow); });
    all.by_box[key] = shadow;
    whole.keep(), noted.keep();
    all.any = true;
    return CUDA_SUCCESS;
}

}  // namespace

CUresult in_server_memory(CUDA_MEMCPY3D &c)
{
    const bool from_host = is_host(c.srcMemoryType, c.srcDevice),
               to_host = is_host(c.dstMemoryType, c.dstDevice);
    if (!from_host && !to_host) return CUDA_SUCCESS;
    if (from_host && to_host) {
        say("a graph that copies from host memory to host memory is not supported; use a host "
            "node");
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (!c.WidthInBytes || !c.Height || !c.Depth) return CUDA_ERROR_INVALID_VALUE;
    CUdeviceptr shadow = 0;
    std::lock_guard lock(shadows().mutex);
    if (CUresult r = shadow_for(c, from_host, shadow)) return r;
    const CUDA_MEMCPY3D whole = packed(c, shadow);
    if (from_host)
        source_from(c, whole);
    else
        destination_from(c, whole);
    return CUDA_SUCCESS;
}

const HostCopy *in_program_memory(CUDA_MEMCPY3D &c)
{
    if (!any_host_copy()) return nullptr;
    std::lock_guard lock(shadows().mutex);
    auto &all = shadows().by_address;
    auto at = [&](CUmemorytype type, CUdeviceptr address) {
        return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED ? all.find(address)
                                                                             : all.end();
    };
    if (auto it = at(c.srcMemoryType, c.srcDevice); it != all.end() && it->second.to_device) {
        source_from(c, it->second.transfer);
        return &it->second;
    }
    if (auto it = at(c.dstMemoryType, c.dstDevice); it != all.end() && !it->second.to_device) {
        destination_from(c, it->second.transfer);
        return &it->second;
    }
    return nullptr;
}

bool any_host_copy() { return shadows().any.load(std::memory_order_acquire); }

}  // namespace rgpu::interpose
