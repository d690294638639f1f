// SPDX-License-Identifier: Apache-2.0
// The two sides of a 3D copy's struct, as wholes.
#pragma once

#include "calls/cuda_api.h"

namespace rgpu::interpose {

// To's source becomes From's; both have the fields of CUDA_MEMCPY3D.
template <class To, class From> void source_from(To &to, const From &c)
{
    to.srcXInBytes = c.srcXInBytes, to.srcY = c.srcY, to.srcZ = c.srcZ, to.srcLOD = c.srcLOD;
    to.srcMemoryType = c.srcMemoryType, to.srcHost = c.srcHost, to.srcDevice = c.srcDevice,
    to.srcArray = c.srcArray;
    to.srcPitch = c.srcPitch, to.srcHeight = c.srcHeight;
}

template <class To, class From> void destination_from(To &to, const From &c)
{
    to.dstXInBytes = c.dstXInBytes, to.dstY = c.dstY, to.dstZ = c.dstZ, to.dstLOD = c.dstLOD;
    to.dstMemoryType = c.dstMemoryType, to.dstHost = c.dstHost, to.dstDevice = c.dstDevice,
    to.dstArray = c.dstArray;
    to.dstPitch = c.dstPitch, to.dstHeight = c.dstHeight;
}

// A box of c's size that lies row by row, slice by slice, from `memory` on; as source and as
// destination.
inline CUDA_MEMCPY3D packed(const CUDA_MEMCPY3D &c, CUdeviceptr memory)
{
    CUDA_MEMCPY3D p{};
    p.srcMemoryType = p.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    p.srcDevice = p.dstDevice = memory;
    p.srcPitch = p.dstPitch = p.WidthInBytes = c.WidthInBytes;
    p.srcHeight = p.dstHeight = p.Height = c.Height;
    p.Depth = c.Depth;
    return p;
}

}  // namespace rgpu::interpose
