// SPDX-License-Identifier: Apache-2.0
// Arrays: CUDA Driver API, "Memory Management", cuArray*, and the flat copies to and from them.
#include "softgpu/driver/api/export.h"
#include "softgpu/driver/graph/capture.h"
#include "softgpu/driver/graph/submit.h"
#include "softgpu/driver/state/array.h"
#include "softgpu/driver/state/context.h"
#include "softgpu/driver/state/current.h"
#include "softgpu/driver/state/driver.h"
#include "softgpu/driver/state/stream.h"

namespace rgpu::softgpu::driver {

namespace {

constexpr size_t kMostWidth = 131072, kMostLayers = 16384;

CUresult create(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    Context *c;
    if (CUresult rc = usable_context(c)) return rc;
    const unsigned channels = d ? d->NumChannels : 0;
    if (!array || !d || !format_bytes(d->Format) ||
        (channels != 1 && channels != 2 && channels != 4) || !d->Width || d->Width > kMostWidth ||
        d->Height > kMostWidth || d->Depth > kMostLayers)
        return CUDA_ERROR_INVALID_VALUE;
    constexpr unsigned known = CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST |
                               CUDA_ARRAY3D_TEXTURE_GATHER;
    if (d->Flags & ~known) return CUDA_ERROR_NOT_SUPPORTED;  // cube maps, depth, sparse arrays
    // cuArray3DCreate: texture gather can only be performed on 2D arrays.
    if (d->Flags & CUDA_ARRAY3D_TEXTURE_GATHER && (!d->Height || d->Depth))
        return CUDA_ERROR_INVALID_VALUE;
    if (CUresult rc = may_call_unsafe()) return rc;
    const uint64_t bytes = uint64_t{format_bytes(d->Format)} * channels * d->Width *
                           (d->Height ? d->Height : 1) * (d->Depth ? d->Depth : 1);
    const uint64_t address = c->device.arena.allocate(bytes);
    if (!address) return CUDA_ERROR_OUT_OF_MEMORY;
    *array = driver().arrays.add(std::make_shared<Array>(*c, *d, address));
    return CUDA_SUCCESS;
}

CUresult create_plane(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *d)
{
    if (!d) return CUDA_ERROR_INVALID_VALUE;
    CUDA_ARRAY3D_DESCRIPTOR box = {};
    box.Width = d->Width;
    box.Height = d->Height;
    box.Format = d->Format;
    box.NumChannels = d->NumChannels;
    return create(array, &box);
}

CUresult destroy(CUarray array)
{
    auto a = driver().arrays.find(array);
    if (!a) return CUDA_ERROR_INVALID_HANDLE;
    if (CUresult rc = may_call_unsafe()) return rc;
    if (CUresult rc = a->context.synchronize()) return rc;
    driver().arrays.remove(array);
    return CUDA_SUCCESS;
}

CUresult descriptor(CUDA_ARRAY3D_DESCRIPTOR *d, CUarray array)
{
    auto a = driver().arrays.find(array);
    if (!a) return CUDA_ERROR_INVALID_HANDLE;
    if (!d) return CUDA_ERROR_INVALID_VALUE;
    *d = a->shape;
    return CUDA_SUCCESS;
}

CUresult plane_descriptor(CUDA_ARRAY_DESCRIPTOR *d, CUarray array)
{
    auto a = driver().arrays.find(array);
    if (!a) return CUDA_ERROR_INVALID_HANDLE;
    if (!d || a->shape.Depth) return CUDA_ERROR_INVALID_VALUE;
    *d = {a->shape.Width, a->shape.Height, a->shape.Format, a->shape.NumChannels};
    return CUDA_SUCCESS;
}

// --- flat copies: bytes of a row of an array

CUresult end_in(CUarray array, size_t offset, const Copy &c, Copy::Side &s)
{
    auto a = driver().arrays.find(array);
    return a ? a->side(offset, 0, 0, c, s) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult now(const Copy &c)
{
    std::shared_ptr<Stream> s;
    if (CUresult rc = find_stream(nullptr, s)) return rc;
    return copy_now(*s, c);
}

CUresult to_array(CUarray array, size_t offset, uint64_t from, Copy::End end, size_t bytes, Copy &c)
{
    c = flat_copy(0, Copy::End::array, from, end, bytes);
    return end_in(array, offset, c, c.to);
}

CUresult from_array(uint64_t to, Copy::End end, CUarray array, size_t offset, size_t bytes, Copy &c)
{
    c = flat_copy(to, end, 0, Copy::End::array, bytes);
    return end_in(array, offset, c, c.from);
}

uint64_t address_of(const void *p) { return reinterpret_cast<uint64_t>(p); }

CUresult htoa(CUarray array, size_t offset, const void *from, size_t bytes)
{
    Copy c;
    if (CUresult rc = to_array(array, offset, address_of(from), Copy::End::host, bytes, c))
        return rc;
    return now(c);
}

CUresult atoh(void *to, CUarray array, size_t offset, size_t bytes)
{
    Copy c;
    if (CUresult rc = from_array(address_of(to), Copy::End::host, array, offset, bytes, c))
        return rc;
    return now(c);
}

CUresult dtoa(CUarray array, size_t offset, CUdeviceptr from, size_t bytes)
{
    Copy c;
    if (CUresult rc = to_array(array, offset, from, Copy::End::device, bytes, c)) return rc;
    return now(c);
}

CUresult atod(CUdeviceptr to, CUarray array, size_t offset, size_t bytes)
{
    Copy c;
    if (CUresult rc = from_array(to, Copy::End::device, array, offset, bytes, c)) return rc;
    return now(c);
}

CUresult atoa(CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t bytes)
{
    Copy c = flat_copy(0, Copy::End::array, 0, Copy::End::array, bytes);
    if (CUresult rc = end_in(to, to_offset, c, c.to)) return rc;
    if (CUresult rc = end_in(from, from_offset, c, c.from)) return rc;
    return now(c);
}

CUresult htoa_async(CUarray array, size_t offset, const void *from, size_t bytes, CUstream stream)
{
    Copy c;
    std::shared_ptr<Stream> s;
    if (CUresult rc = find_stream(stream, s)) return rc;
    if (CUresult rc = to_array(array, offset, address_of(from), Copy::End::host, bytes, c))
        return rc;
    return copy_async(*s, c);
}

CUresult atoh_async(void *to, CUarray array, size_t offset, size_t bytes, CUstream stream)
{
    Copy c;
    std::shared_ptr<Stream> s;
    if (CUresult rc = find_stream(stream, s)) return rc;
    if (CUresult rc = from_array(address_of(to), Copy::End::host, array, offset, bytes, c))
        return rc;
    return copy_async(*s, c);
}

RGPU_EXPORT(cuArrayCreate_v2, create_plane)
RGPU_EXPORT(cuArray3DCreate_v2, create)
RGPU_EXPORT(cuArrayDestroy, destroy)
RGPU_EXPORT(cuArrayGetDescriptor_v2, plane_descriptor)
RGPU_EXPORT(cuArray3DGetDescriptor_v2, descriptor)
RGPU_EXPORT_PTDS(cuMemcpyHtoA_v2, htoa)
RGPU_EXPORT_PTDS(cuMemcpyAtoH_v2, atoh)
RGPU_EXPORT_PTDS(cuMemcpyDtoA_v2, dtoa)
RGPU_EXPORT_PTDS(cuMemcpyAtoD_v2, atod)
RGPU_EXPORT_PTDS(cuMemcpyAtoA_v2, atoa)
RGPU_EXPORT_PTSZ(cuMemcpyHtoAAsync_v2, htoa_async)
RGPU_EXPORT_PTSZ(cuMemcpyAtoHAsync_v2, atoh_async)

}  // namespace

}  // namespace rgpu::softgpu::driver
