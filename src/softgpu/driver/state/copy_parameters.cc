// SPDX-License-Identifier: Apache-2.0
#include "softgpu/driver/state/copy_parameters.h"

#include "softgpu/driver/state/array.h"
#include "softgpu/driver/state/driver.h"

namespace rgpu::softgpu::driver {

namespace {

using End = Copy::End;

CUresult side(CUmemorytype type, const void *host, CUdeviceptr device, CUarray array, size_t x,
              size_t y, size_t z, size_t pitch, size_t rows, const Copy &size, Copy::Side &s)
{
    switch (type) {
    case CU_MEMORYTYPE_HOST:
        s = {reinterpret_cast<uint64_t>(host), pitch, pitch * rows, End::host};
        break;
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

}  // namespace

CUresult read_copy(const CUDA_MEMCPY3D *p, Copy &c) { return box(p, c); }
CUresult read_copy(const CUDA_MEMCPY3D_PEER *p, Copy &c) { return box(p, c); }

CUresult read_copy(const CUDA_MEMCPY2D *p, Copy &c)
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

}  // namespace rgpu::softgpu::driver
