// SPDX-License-Identifier: Apache-2.0
// Copies: CUDA Driver API, "Memory Management", cuMemcpy*.
#include "softgpu/driver/api/export.h"
#include "softgpu/driver/graph/submit.h"
#include "softgpu/driver/state/context.h"
#include "softgpu/driver/state/copy_parameters.h"
#include "softgpu/driver/state/current.h"
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

CUresult copy_2d(const CUDA_MEMCPY2D *p)
{
    Copy c;
    if (CUresult rc = read_copy(p, c)) return rc;
    return now(c);
}

CUresult copy_2d_async(const CUDA_MEMCPY2D *p, CUstream s)
{
    Copy c;
    if (CUresult rc = read_copy(p, c)) return rc;
    return later(c, s);
}

CUresult copy_3d(const CUDA_MEMCPY3D *p)
{
    Copy c;
    if (CUresult rc = read_copy(p, c)) return rc;
    return now(c);
}

CUresult copy_3d_async(const CUDA_MEMCPY3D *p, CUstream s)
{
    Copy c;
    if (CUresult rc = read_copy(p, c)) return rc;
    return later(c, s);
}

CUresult copy_3d_peer(const CUDA_MEMCPY3D_PEER *p)
{
    Copy c;
    if (CUresult rc = read_copy(p, c)) return rc;
    if (CUresult rc = wait_for_peers(p->dstContext, p->srcContext)) return rc;
    return now(c);
}

CUresult copy_3d_peer_async(const CUDA_MEMCPY3D_PEER *p, CUstream s)
{
    Copy c;
    if (CUresult rc = read_copy(p, c)) return rc;
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
