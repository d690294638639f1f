// 2D and 3D copies of linear memory. Between device addresses they go to the server as they are; to and from the
// program's memory they are rows, and rows that lie close together are one plain copy.
#include "interpose/capture.h"
#include "interpose/memory.h"
#include "interpose/own.h"
#include "interpose/stub.h"

namespace rgpu::interpose {

namespace {

// One side of a copy: where its first byte is, and how far apart rows and slices are.
struct Side {
    bool device = false;
    uintptr_t first = 0;
    size_t pitch = 0, slice = 0;
};

CUresult side(Side &s, CUmemorytype type, const void *host, CUdeviceptr address, size_t pitch, size_t height, size_t x,
              size_t y, size_t z, size_t width)
{
    if (type == CU_MEMORYTYPE_ARRAY) return CUDA_ERROR_NOT_SUPPORTED;
    const bool by_address = type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED;
    if (!by_address && type != CU_MEMORYTYPE_HOST) return CUDA_ERROR_INVALID_VALUE;
    uintptr_t base = by_address ? address : reinterpret_cast<uintptr_t>(host);
    s.device = type == CU_MEMORYTYPE_DEVICE || (by_address && is_device_address(address));
    s.pitch = pitch ? pitch : width;
    s.slice = s.pitch * (height ? height : 1);
    s.first = base + x + y * s.pitch + z * s.slice;
    return s.pitch < x + width ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

// Rows, or as many as lie back to back on both sides.
template <class Copy> CUresult by_rows(const CUDA_MEMCPY3D &c, const Side &to, const Side &from, Copy &&copy)
{
    const bool rows_touch = to.pitch == c.WidthInBytes && from.pitch == c.WidthInBytes;
    const size_t bytes = rows_touch ? c.WidthInBytes * c.Height : c.WidthInBytes;
    for (size_t z = 0; z < c.Depth; z++)
        for (size_t y = 0; y < (rows_touch ? 1 : c.Height); y++) {
            const bool last = z + 1 == c.Depth && (rows_touch || y + 1 == c.Height);
            CUresult r = copy(to.first + z * to.slice + y * to.pitch, from.first + z * from.slice + y * from.pitch, bytes, last);
            if (r) return r;
        }
    return CUDA_SUCCESS;
}

}  // namespace

CUresult copy_box(const CUDA_MEMCPY3D &c, CUstream stream, CopyWait when)
{
    if (!session()) return not_ready();
    if (!current_context()) return CUDA_ERROR_INVALID_CONTEXT;
    Side to, from;
    CUresult r = side(from, c.srcMemoryType, c.srcHost, c.srcDevice, c.srcPitch, c.srcHeight, c.srcXInBytes, c.srcY, c.srcZ,
                      c.WidthInBytes);
    if (!r) r = side(to, c.dstMemoryType, c.dstHost, c.dstDevice, c.dstPitch, c.dstHeight, c.dstXInBytes, c.dstY, c.dstZ,
                     c.WidthInBytes);
    if (r) return r;
    if (!c.WidthInBytes || !c.Height || !c.Depth) return CUDA_SUCCESS;
    HandleId number = 0;
    if ((r = detail::id_in(stream, number))) return r;
    // In a graph the program's memory is not copied now: the table's carrier puts server memory in its place.
    if (is_captured(number)) return remote<CallId::cuMemcpy3DAsync_v2>(&c, stream);
    if (to.device && from.device) {
        CUDA_MEMCPY3D sent = c;
        sent.srcMemoryType = sent.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        return remote<CallId::cuMemcpy3DAsync_v2>(static_cast<const CUDA_MEMCPY3D *>(&sent), stream);
    }
    if (to.device)
        return by_rows(c, to, from, [&](uintptr_t t, uintptr_t f, size_t n, bool) {
            return copy_to_device(t, reinterpret_cast<const void *>(f), n, stream);
        });
    if (from.device) {
        const bool pinned = find_host(reinterpret_cast<void *>(to.first)).has_value();
        const bool wait = when == CopyWait::always || (when == CopyWait::as_memory_says && !pinned);
        // Rows of one stream arrive in order: when the last is here, all are.
        return by_rows(c, to, from, [&](uintptr_t t, uintptr_t f, size_t n, bool last) {
            return copy_to_host(reinterpret_cast<void *>(t), f, n, stream, wait && last);
        });
    }
    r = remote<CallId::cuStreamSynchronize>(stream);
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
    b.srcMemoryType = c.srcMemoryType, b.srcHost = c.srcHost, b.srcDevice = c.srcDevice, b.srcArray = c.srcArray;
    b.srcPitch = c.srcPitch;
    b.dstXInBytes = c.dstXInBytes, b.dstY = c.dstY;
    b.dstMemoryType = c.dstMemoryType, b.dstHost = c.dstHost, b.dstDevice = c.dstDevice, b.dstArray = c.dstArray;
    b.dstPitch = c.dstPitch;
    b.WidthInBytes = c.WidthInBytes, b.Height = c.Height, b.Depth = 1;
    return b;
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
CUresult cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D *c) { return copy_2d(c, CU_STREAM_PER_THREAD, CopyWait::always); }
CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *c) { return copy_2d(c, nullptr, CopyWait::always); }
CUresult cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D *c) { return copy_2d(c, CU_STREAM_PER_THREAD, CopyWait::always); }
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *c, CUstream stream) { return copy_2d(c, stream, CopyWait::as_memory_says); }
CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *c) { return copy_3d(c, nullptr, CopyWait::always); }
CUresult cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D *c) { return copy_3d(c, CU_STREAM_PER_THREAD, CopyWait::always); }
CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *c, CUstream stream) { return copy_3d(c, stream, CopyWait::as_memory_says); }

}  // namespace own

}  // namespace rgpu::interpose
