// SPDX-License-Identifier: Apache-2.0
// Batches of 3D copies: in one stream they do what their copies do one after the other.
#include "calls/array_format.h"
#include "interpose/mirror/addresses.h"
#include "interpose/stream/copies.h"
#include "interpose/stub/by_hand.h"
#include "interpose/stub/stub.h"

#if CUDA_VERSION >= 12080

namespace rgpu::interpose {

namespace {

bool is_array(const CUmemcpy3DOperand &o) { return o.type == CU_MEMCPY_OPERAND_TYPE_ARRAY; }

// CUDA: the array's; 1 between pointers.
CUresult element_bytes(const CUDA_MEMCPY3D_BATCH_OP &op, size_t &bytes)
{
    bytes = 1;
    if (!is_array(op.src) && !is_array(op.dst)) return CUDA_SUCCESS;
    CUDA_ARRAY3D_DESCRIPTOR d{};
    const CUarray array = (is_array(op.src) ? op.src : op.dst).op.array.array;
    if (CUresult r = remote<CallId::cuArray3DGetDescriptor_v2>(&d, array)) return r;
    bytes = size_t{calls::format_bytes(d.Format)} * d.NumChannels;
    return bytes ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

// One operand's fields of a box: x in bytes, rows and slices.
struct Fields {
    CUmemorytype &type;
    CUdeviceptr &address;
    CUarray &array;
    size_t &x, &y, &z, &pitch, &height;
};

CUresult fill(const Fields &to, const CUmemcpy3DOperand &o, const CUextent3D &extent,
              size_t element)
{
    if (is_array(o)) {
        to.type = CU_MEMORYTYPE_ARRAY;
        to.array = o.op.array.array;
        to.x = o.op.array.offset.x * element, to.y = o.op.array.offset.y,
        to.z = o.op.array.offset.z;
        return CUDA_SUCCESS;
    }
    const auto &p = o.op.ptr;
    if (o.type != CU_MEMCPY_OPERAND_TYPE_POINTER || (p.rowLength && p.rowLength < extent.width) ||
        (p.layerHeight && p.layerHeight < extent.height))
        return CUDA_ERROR_INVALID_VALUE;
    to.type = CU_MEMORYTYPE_UNIFIED;
    to.address = p.ptr;
    to.pitch = (p.rowLength ? p.rowLength : extent.width) * element;
    to.height = p.layerHeight ? p.layerHeight : extent.height;
    return CUDA_SUCCESS;
}

CUresult as_box(const CUDA_MEMCPY3D_BATCH_OP &op, CUDA_MEMCPY3D &b)
{
    size_t element = 1;
    if (!op.extent.width || !op.extent.height || !op.extent.depth) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult r = element_bytes(op, element)) return r;
    const Fields src{b.srcMemoryType, b.srcDevice, b.srcArray, b.srcXInBytes,
                     b.srcY,          b.srcZ,      b.srcPitch, b.srcHeight};
    const Fields dst{b.dstMemoryType, b.dstDevice, b.dstArray, b.dstXInBytes,
                     b.dstY,          b.dstZ,      b.dstPitch, b.dstHeight};
    if (CUresult r = fill(src, op.src, op.extent, element)) return r;
    b.WidthInBytes = op.extent.width * element, b.Height = op.extent.height,
    b.Depth = op.extent.depth;
    return fill(dst, op.dst, op.extent, element);
}

CUresult copy_all(size_t count, const CUDA_MEMCPY3D_BATCH_OP *ops, unsigned long long flags,
                  CUstream stream)
{
    if (!session()) return not_ready();
    if (flags || (count && !ops)) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        CUDA_MEMCPY3D b{};
        if (CUresult r = as_box(ops[i], b)) return r;
        if (CUresult r = copy_box(b, stream, CopyWait::as_memory_says)) return r;
    }
    return CUDA_SUCCESS;
}

}  // namespace

namespace own {

CUresult cuMemcpy3DBatchAsync(size_t count, CUDA_MEMCPY3D_BATCH_OP *ops, size_t *failed,
                              unsigned long long flags, CUstream stream)
{
    CUresult r = copy_all(count, ops, flags, stream);
    if (r && failed) *failed = SIZE_MAX;  // CUDA: the error belongs to no certain copy
    return r;
}

#if CUDA_VERSION >= 13000
CUresult cuMemcpy3DBatchAsync_v2(size_t count, CUDA_MEMCPY3D_BATCH_OP *ops,
                                 unsigned long long flags, CUstream stream)
{
    return copy_all(count, ops, flags, stream);
}
#endif

}  // namespace own

}  // namespace rgpu::interpose

#endif
