// SPDX-License-Identifier: Apache-2.0
#include "softgpu/driver/state/array.h"

#include "softgpu/driver/state/context.h"
#include "softgpu/driver/state/device.h"

namespace rgpu::softgpu::driver {

Array::Array(Context &c, const CUDA_ARRAY3D_DESCRIPTOR &d, uint64_t a)
    : context(c), shape(d), address(a), element(size_t{format_bytes(d.Format)} * d.NumChannels)
{}

Array::~Array() { context.device.arena.free(address, bytes()); }

CUresult Array::side(size_t x, size_t y, size_t z, const Copy &c, Copy::Side &s) const
{
    if (x > row() || c.width > row() - x || y > rows() || c.height > rows() - y || z > layers() ||
        c.depth > layers() - z)
        return CUDA_ERROR_INVALID_VALUE;
    s = {address + z * slice() + y * row() + x, row(), slice(), Copy::End::array};
    return CUDA_SUCCESS;
}

}  // namespace rgpu::softgpu::driver
