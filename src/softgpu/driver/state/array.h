// SPDX-License-Identifier: Apache-2.0
// A CUDA array: opaque memory with a shape, for copies of boxes and for textures. Ours is plain
// rows.
#pragma once

#include <cstdint>

#include "calls/array_format.h"
#include "softgpu/driver/state/copy.h"

namespace rgpu::softgpu::driver {

class Context;

using calls::format_bytes;

// Owns its memory. Nothing changes after it was made, so any thread may ask.
class Array {
public:
    Array(Context &, const CUDA_ARRAY3D_DESCRIPTOR &, uint64_t address);
    ~Array();

    Context &context;
    const CUDA_ARRAY3D_DESCRIPTOR shape;
    const uint64_t address;
    const size_t element;  // bytes
    size_t rows() const { return shape.Height ? shape.Height : 1; }
    size_t layers() const { return shape.Depth ? shape.Depth : 1; }
    size_t row() const { return shape.Width * element; }
    size_t slice() const { return row() * rows(); }
    size_t bytes() const { return slice() * layers(); }
    // The part of it that begins there, as an end of a copy of this size; INVALID_VALUE where it is
    // not inside.
    CUresult side(size_t x_bytes, size_t y, size_t z, const Copy &size, Copy::Side &) const;
};

}  // namespace rgpu::softgpu::driver
