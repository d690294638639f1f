// SPDX-License-Identifier: Apache-2.0
// 2D and 3D copies. Between device addresses and arrays they go to the server as they are; between
// linear memory and the program's they are rows, and rows that lie close together are one plain
// copy; between arrays and the program's memory they go through device memory that is allocated for
// the time.
#include "interpose/link/waiting.h"
#include "interpose/mirror/addresses.h"
#include "interpose/mirror/mirror.h"
#include "interpose/span/relay.h"
#include "interpose/state/capture.h"
#include "interpose/stream/box.h"
#include "interpose/stream/copies.h"
#include "interpose/stream/sync_copies.h"
#include "interpose/stub/by_hand.h"
#include "interpose/stub/stub.h"

namespace rgpu::interpose {

namespace {

// One side of a copy: where its first byte is, and how far apart rows and slices are.
struct Side {
    bool device = false, array = false;
    uintptr_t first = 0;
    size_t pitch = 0, slice = 0;
};

CUresult side(Side &s, CUmemorytype type, const void *host, CUdeviceptr address, size_t pitch,
              size_t height, size_t x, size_t y, size_t z, size_t width)
{
    if (type == CU_MEMORYTYPE_ARRAY) {
        s.device = s.array = true;
        return CUDA_SUCCESS;
    }
    const bool by_address = type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED;
    if (!by_address && type != CU_MEMORYTYPE_HOST) return CUDA_ERROR_INVALID_VALUE;
    uintptr_t base = by_address ? address : reinterpret_cast<uintptr_t>(host);
    s.device = type == CU_MEMORYTYPE_DEVICE || (by_address && is_device_address(address));
    s.pitch = pitch ? pitch : width;
    s.slice = s.pitch * (height ? height : 1);
    s.first = base + x + y * s.pitch + z * s.slice;
    return s.pitch < x + width ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

// Whether a side lies within its allocation for sure. How large arrays are the server knows.
bool fits(const CUDA_MEMCPY3D &c, const Side &s)
{
    const size_t bytes = (c.Depth - 1) * s.slice + (c.Height - 1) * s.pitch + c.WidthInBytes;
    return !s.array && is_device_range(s.first, bytes);
}

// Rows, or as many as lie back to back on both sides.
template <class Copy>
CUresult by_rows(const CUDA_MEMCPY3D &c, const Side &to, const Side &from, Copy &&copy)
{
    const bool rows_touch = to.pitch == c.WidthInBytes && from.pitch == c.WidthInBytes;
    const size_t bytes = rows_touch ? c.WidthInBytes * c.Height : c.WidthInBytes;
    for (size_t z = 0; z < c.Depth; z++)
        for (size_t y = 0; y < (rows_touch ? 1 : c.Height); y++) {
            const bool last = z + 1 == c.Depth && (rows_touch || y + 1 == c.Height);
            CUresult r = copy(to.first + z * to.slice + y * to.pitch,
                              from.first + z * from.slice + y * from.pitch, bytes, last);
            if (r) return r;
        }
    return CUDA_SUCCESS;
}

// Between an array and the program's memory.
CUresult through_device_memory(const CUDA_MEMCPY3D &c, bool to_array, CUstream stream)
{
    CUdeviceptr between = 0;
    if (CUresult r = own::cuMemAlloc_v2(&between, c.WidthInBytes * c.Height * c.Depth)) return r;
    const CUDA_MEMCPY3D box = packed(c, between);
    CUDA_MEMCPY3D first = c, second = c;
    destination_from(first, box);
    source_from(second, box);
    const Waiting unsure(true);
    CUresult r = to_array ? copy_box(first, stream, CopyWait::never)
                          : remote<CallId::cuMemcpy3DAsync_v2>(
                                static_cast<const CUDA_MEMCPY3D *>(&first), stream);
    if (!r)
        r = to_array ? remote<CallId::cuMemcpy3DAsync_v2>(
                           static_cast<const CUDA_MEMCPY3D *>(&second), stream)
                     : copy_box(second, stream, CopyWait::always);
    CUresult freed = own::cuMemFree_v2(between);
    return r ? r : freed;
}

}  // namespace

CUresult copy_box(const CUDA_MEMCPY3D &c, CUstream stream, CopyWait when)
{
    if (!session()) return not_ready();
    if (relay::is_elsewhere(c)) return relay::copy(c, stream, when);
    CUresult r = context_state();
    if (r) return r;
    Side to, from;
    r = side(from, c.srcMemoryType, c.srcHost, c.srcDevice, c.srcPitch, c.srcHeight, c.srcXInBytes,
             c.srcY, c.srcZ, c.WidthInBytes);
    if (!r)
        r = side(to, c.dstMemoryType, c.dstHost, c.dstDevice, c.dstPitch, c.dstHeight,
                 c.dstXInBytes, c.dstY, c.dstZ, c.WidthInBytes);
    HandleId array = 0;
    for (auto [is_array, a] : {std::pair{from.array, c.srcArray}, std::pair{to.array, c.dstArray}})
        if (!r && is_array)
            r = detail::id_in(a, array) || !array ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
    if (r) return r;
    if (!c.WidthInBytes || !c.Height || !c.Depth) return CUDA_SUCCESS;
    HandleId number = 0;
    if ((r = detail::id_in(stream, number)) || (r = may_give_work(number))) return r;
    // In a graph the program's memory is not copied now: the table's carrier puts server memory in
    // its place.
    if (is_captured(number)) return remote<CallId::cuMemcpy3DAsync_v2>(&c, stream);
    if (to.device && from.device) {
        const Waiting unsure(!fits(c, to) ||
                             !fits(c, from));  // which may share memory: before the order is held
        mirror::Work work;
        if ((r = work.begin(number, {to.first, from.first}))) return r;
        r = remote<CallId::cuMemcpy3DAsync_v2>(&c, stream);
        // Not with the order of work held.
        work = {};
        return r || when != CopyWait::always ? r : sync_copies::after_change(to.first, stream);
    }
    if (to.array || from.array) return through_device_memory(c, to.array, stream);
    if (to.device) {
        r = by_rows(c, to, from, [&](uintptr_t t, uintptr_t f, size_t n, bool) {
            return copy_to_device(t, reinterpret_cast<const void *>(f), n, stream,
                                  when == CopyWait::always);
        });
        return r || when != CopyWait::always ? r : sync_copies::after_copy(stream);
    }
    if (from.device) {
        const bool pinned = find_host(reinterpret_cast<void *>(to.first)).has_value();
        const bool wait = when == CopyWait::always || (when == CopyWait::as_memory_says && !pinned);
        // Rows of one stream arrive in order: when the last is here, all are.
        return by_rows(c, to, from, [&](uintptr_t t, uintptr_t f, size_t n, bool last) {
            return copy_to_host(reinterpret_cast<void *>(t), f, n, stream, wait && last);
        });
    }
    r = own::cuStreamSynchronize(stream);
    if (r) return r;
    return by_rows(c, to, from, [&](uintptr_t t, uintptr_t f, size_t n, bool) {
        memmove(reinterpret_cast<void *>(t), reinterpret_cast<const void *>(f), n);
        return CUDA_SUCCESS;
    });
}

namespace {

CUDA_MEMCPY3D as_box(const CUDA_MEMCPY2D &c)
{
    CUDA_MEMCPY3D b{};
    b.srcXInBytes = c.srcXInBytes, b.srcY = c.srcY;
    b.srcMemoryType = c.srcMemoryType, b.srcHost = c.srcHost, b.srcDevice = c.srcDevice,
    b.srcArray = c.srcArray;
    b.srcPitch = c.srcPitch;
    b.dstXInBytes = c.dstXInBytes, b.dstY = c.dstY;
    b.dstMemoryType = c.dstMemoryType, b.dstHost = c.dstHost, b.dstDevice = c.dstDevice,
    b.dstArray = c.dstArray;
    b.dstPitch = c.dstPitch;
    b.WidthInBytes = c.WidthInBytes, b.Height = c.Height, b.Depth = 1;
    return b;
}

// Unified addresses need no contexts.
CUDA_MEMCPY3D as_box(const CUDA_MEMCPY3D_PEER &c)
{
    CUDA_MEMCPY3D b{};
    source_from(b, c);
    destination_from(b, c);
    b.WidthInBytes = c.WidthInBytes, b.Height = c.Height, b.Depth = c.Depth;
    return b;
}

// One row, of which either side may be an array.
struct Row {
    CUmemorytype type = CU_MEMORYTYPE_DEVICE;
    const void *host = nullptr;
    CUdeviceptr device = 0;
    CUarray array = nullptr;
    size_t offset = 0;
};
Row in_array(CUarray a, size_t offset) { return {CU_MEMORYTYPE_ARRAY, nullptr, 0, a, offset}; }
Row on_device(CUdeviceptr p) { return {CU_MEMORYTYPE_DEVICE, nullptr, p, nullptr, 0}; }
Row in_host(const void *p) { return {CU_MEMORYTYPE_HOST, p, 0, nullptr, 0}; }

CUresult copy_row(const Row &to, const Row &from, size_t bytes, CUstream stream, CopyWait when)
{
    CUDA_MEMCPY3D b{};
    b.srcMemoryType = from.type, b.srcHost = from.host, b.srcDevice = from.device,
    b.srcArray = from.array;
    b.srcXInBytes = from.offset;
    b.dstMemoryType = to.type, b.dstHost = const_cast<void *>(to.host), b.dstDevice = to.device,
    b.dstArray = to.array;
    b.dstXInBytes = to.offset;
    b.srcPitch = b.dstPitch = b.WidthInBytes = bytes;
    b.srcHeight = b.dstHeight = b.Height = b.Depth = 1;
    return copy_box(b, stream, when);
}

CUresult copy_2d(const CUDA_MEMCPY2D *c, CUstream stream, CopyWait when)
{
    return c ? copy_box(as_box(*c), stream, when) : CUDA_ERROR_INVALID_VALUE;
}

CUresult copy_3d(const CUDA_MEMCPY3D *c, CUstream stream, CopyWait when)
{
    return c ? copy_box(*c, stream, when) : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

namespace own {

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *c) { return copy_2d(c, nullptr, CopyWait::always); }
CUresult cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D *c)
{
    return copy_2d(c, CU_STREAM_PER_THREAD, CopyWait::always);
}
CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *c)
{
    return copy_2d(c, nullptr, CopyWait::always);
}
CUresult cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D *c)
{
    return copy_2d(c, CU_STREAM_PER_THREAD, CopyWait::always);
}
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *c, CUstream stream)
{
    return copy_2d(c, stream, CopyWait::as_memory_says);
}
CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *c) { return copy_3d(c, nullptr, CopyWait::always); }
CUresult cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D *c)
{
    return copy_3d(c, CU_STREAM_PER_THREAD, CopyWait::always);
}
CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *c, CUstream stream)
{
    return copy_3d(c, stream, CopyWait::as_memory_says);
}

CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *c, CUstream stream)
{
    return c ? copy_box(as_box(*c), stream, CopyWait::as_memory_says) : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemcpyHtoAAsync_v2(CUarray to, size_t offset, const void *from, size_t bytes,
                              CUstream stream)
{
    return copy_row(in_array(to, offset), in_host(from), bytes, stream, CopyWait::as_memory_says);
}
CUresult cuMemcpyAtoHAsync_v2(void *to, CUarray from, size_t offset, size_t bytes, CUstream stream)
{
    return copy_row(in_host(to), in_array(from, offset), bytes, stream, CopyWait::as_memory_says);
}

#define SYNCHRONOUS(suffix, stream) \
    CUresult cuMemcpy3DPeer##suffix(const CUDA_MEMCPY3D_PEER *c) \
    { \
        return c ? copy_box(as_box(*c), stream, CopyWait::always) : CUDA_ERROR_INVALID_VALUE; \
    } \
    CUresult cuMemcpyDtoA_v2##suffix(CUarray to, size_t offset, CUdeviceptr from, size_t bytes) \
    { \
        return copy_row(in_array(to, offset), on_device(from), bytes, stream, CopyWait::always); \
    } \
    CUresult cuMemcpyAtoD_v2##suffix(CUdeviceptr to, CUarray from, size_t offset, size_t bytes) \
    { \
        return copy_row(on_device(to), in_array(from, offset), bytes, stream, CopyWait::always); \
    } \
    CUresult cuMemcpyHtoA_v2##suffix(CUarray to, size_t offset, const void *from, size_t bytes) \
    { \
        return copy_row(in_array(to, offset), in_host(from), bytes, stream, CopyWait::always); \
    } \
    CUresult cuMemcpyAtoH_v2##suffix(void *to, CUarray from, size_t offset, size_t bytes) \
    { \
        return copy_row(in_host(to), in_array(from, offset), bytes, stream, CopyWait::always); \
    } \
    CUresult cuMemcpyAtoA_v2##suffix(CUarray to, size_t to_offset, CUarray from, \
                                     size_t from_offset, size_t bytes) \
    { \
        return copy_row(in_array(to, to_offset), in_array(from, from_offset), bytes, stream, \
                        CopyWait::always); \
    }
SYNCHRONOUS(, nullptr)
SYNCHRONOUS(_ptds, CU_STREAM_PER_THREAD)
#undef SYNCHRONOUS

}  // namespace own

}  // namespace rgpu::interpose
