// Copies: CUDA Driver API, "Memory Management", cuMemcpy*.
#include "softgpu/driver/state/copy.h"

#include "softgpu/driver/api/export.h"
#include "softgpu/driver/state/array.h"
#include "softgpu/driver/state/context.h"
#include "softgpu/driver/state/driver.h"
#include "softgpu/driver/state/stream.h"

namespace rgpu::softgpu::driver {

namespace {

using End = Copy::End;

uint64_t address(const void *p) { return reinterpret_cast<uint64_t>(p); }

CUresult now(const Copy &c)
{
    std::shared_ptr<Stream> s;
    if (CUresult rc = find_stream(nullptr, s)) return rc;
    return copy_now(*s, c);
}

CUresult later(const Copy &c, CUstream stream)
{
    std::shared_ptr<Stream> s;
    if (CUresult rc = find_stream(stream, s)) return rc;
    return copy_async(*s, c);
}

// --- flat

CUresult copy(CUdeviceptr to, CUdeviceptr from, size_t n)
{
    return now(flat_copy(to, End::any, from, End::any, n));
}
CUresult htod(CUdeviceptr to, const void *from, size_t n)
{
    return now(flat_copy(to, End::device, address(from), End::host, n));
}
CUresult dtoh(void *to, CUdeviceptr from, size_t n)
{
    return now(flat_copy(address(to), End::host, from, End::device, n));
}
CUresult dtod(CUdeviceptr to, CUdeviceptr from, size_t n)
{
    return now(flat_copy(to, End::device, from, End::device, n));
}
CUresult copy_async_any(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s)
{
    return later(flat_copy(to, End::any, from, End::any, n), s);
}
CUresult htod_async(CUdeviceptr to, const void *from, size_t n, CUstream s)
{
    return later(flat_copy(to, End::device, address(from), End::host, n), s);
}
CUresult dtoh_async(void *to, CUdeviceptr from, size_t n, CUstream s)
{
    return later(flat_copy(address(to), End::host, from, End::device, n), s);
}
CUresult dtod_async(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s)
{
    return later(flat_copy(to, End::device, from, End::device, n), s);
}

// --- between contexts

CUresult check_peers(CUcontext to, CUcontext from)
{
    return find_context(to) && find_context(from) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

// CUDA: it starts when all work given to either context is done.
CUresult wait_for_peers(CUcontext to, CUcontext from)
{
    if (CUresult rc = check_peers(to, from)) return rc;
    for (CUcontext c : {to, from})
        if (CUresult rc = find_context(c)->synchronize()) return rc;
    return CUDA_SUCCESS;
}

CUresult peer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
              size_t n)
{
    if (CUresult rc = wait_for_peers(to_context, from_context)) return rc;
    return dtod(to, from, n);
}

CUresult peer_async(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                    size_t n, CUstream s)
{
    if (CUresult rc = check_peers(to_context, from_context)) return rc;
    return dtod_async(to, from, n, s);
}

// --- boxes

CUresult side(CUmemorytype type, const void *host, CUdeviceptr device, CUarray array, size_t x,
              size_t y, size_t z, size_t pitch, size_t rows, const Copy &size, Copy::Side &s)
{
    switch (type) {
    case CU_MEMORYTYPE_HOST: s = {address(host), pitch, pitch * rows, End::host}; break;
    case CU_MEMORYTYPE_DEVICE: s = {device, pitch, pitch * rows, End::device}; break;
    case CU_MEMORYTYPE_UNIFIED: s = {device, pitch, pitch * rows, End::any}; break;
    case CU_MEMORYTYPE_ARRAY: {
        auto a = driver().arrays.find(array);
        return a ? a->side(x, y, z, size, s) : CUDA_ERROR_INVALID_HANDLE;
    }
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    s.address += x + y * s.pitch + z * s.slice;
    return CUDA_SUCCESS;
}

// CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER have the same names for what is read here.
template <class Parameters> CUresult box(const Parameters *p, Copy &c)
{
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    c.width = p->WidthInBytes;
    c.height = p->Height;
    c.depth = p->Depth;
    if (CUresult rc = side(p->dstMemoryType, p->dstHost, p->dstDevice, p->dstArray, p->dstXInBytes,
                           p->dstY, p->dstZ, p->dstPitch, p->dstHeight, c, c.to))
        return rc;
    return side(p->srcMemoryType, p->srcHost, p->srcDevice, p->srcArray, p->srcXInBytes, p->srcY,
                p->srcZ, p->srcPitch, p->srcHeight, c, c.from);
}

CUresult plane(const CUDA_MEMCPY2D *p, Copy &c)
{
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    c.width = p->WidthInBytes;
    c.height = p->Height;
    if (CUresult rc = side(p->dstMemoryType, p->dstHost, p->dstDevice, p->dstArray, p->dstXInBytes,
                           p->dstY, 0, p->dstPitch, 0, c, c.to))
        return rc;
    return side(p->srcMemoryType, p->srcHost, p->srcDevice, p->srcArray, p->srcXInBytes, p->srcY, 0,
                p->srcPitch, 0, c, c.from);
}

}  // namespace

CUresult read_copy(const CUDA_MEMCPY3D *p, Copy &c) { return box(p, c); }

namespace {

CUresult copy_2d(const CUDA_MEMCPY2D *p)
{
    Copy c;
    if (CUresult rc = plane(p, c)) return rc;
    return now(c);
}

CUresult copy_2d_async(const CUDA_MEMCPY2D *p, CUstream s)
{
    Copy c;
    if (CUresult rc = plane(p, c)) return rc;
    return later(c, s);
}

CUresult copy_3d(const CUDA_MEMCPY3D *p)
{
    Copy c;
    if (CUresult rc = box(p, c)) return rc;
    return now(c);
}

CUresult copy_3d_async(const CUDA_MEMCPY3D *p, CUstream s)
{
    Copy c;
    if (CUresult rc = box(p, c)) return rc;
    return later(c, s);
}

CUresult copy_3d_peer(const CUDA_MEMCPY3D_PEER *p)
{
    Copy c;
    if (CUresult rc = box(p, c)) return rc;
    if (CUresult rc = wait_for_peers(p->dstContext, p->srcContext)) return rc;
    return now(c);
}

CUresult copy_3d_peer_async(const CUDA_MEMCPY3D_PEER *p, CUstream s)
{
    Copy c;
    if (CUresult rc = box(p, c)) return rc;
    if (CUresult rc = check_peers(p->dstContext, p->srcContext)) return rc;
    return later(c, s);
}

RGPU_EXPORT_PTDS(cuMemcpy, copy)
RGPU_EXPORT_PTDS(cuMemcpyHtoD_v2, htod)
RGPU_EXPORT_PTDS(cuMemcpyDtoH_v2, dtoh)
RGPU_EXPORT_PTDS(cuMemcpyDtoD_v2, dtod)
RGPU_EXPORT_PTDS(cuMemcpyPeer, peer)
RGPU_EXPORT_PTDS(cuMemcpy2D_v2, copy_2d)
RGPU_EXPORT_PTDS(cuMemcpy2DUnaligned_v2, copy_2d)
RGPU_EXPORT_PTDS(cuMemcpy3D_v2, copy_3d)
RGPU_EXPORT_PTDS(cuMemcpy3DPeer, copy_3d_peer)
RGPU_EXPORT_PTSZ(cuMemcpyAsync, copy_async_any)
RGPU_EXPORT_PTSZ(cuMemcpyHtoDAsync_v2, htod_async)
RGPU_EXPORT_PTSZ(cuMemcpyDtoHAsync_v2, dtoh_async)
RGPU_EXPORT_PTSZ(cuMemcpyDtoDAsync_v2, dtod_async)
RGPU_EXPORT_PTSZ(cuMemcpyPeerAsync, peer_async)
RGPU_EXPORT_PTSZ(cuMemcpy2DAsync_v2, copy_2d_async)
RGPU_EXPORT_PTSZ(cuMemcpy3DAsync_v2, copy_3d_async)
RGPU_EXPORT_PTSZ(cuMemcpy3DPeerAsync, copy_3d_peer_async)

}  // namespace

}  // namespace rgpu::softgpu::driver
