// Copying and setting memory: what every cuMemcpy* and cuMemset* comes down to.
#pragma once

#include <cstddef>
#include <cstdint>

#include "calls/cuda_api.h"

namespace rgpu::softgpu::driver {

class Stream;

// A box of bytes. A flat copy has height and depth 1.
struct Copy {
    // What an end's address is: as the call names it. `any` is found out by the address; of an
    // `array` the bounds have been checked.
    enum class End : uint8_t { host, device, any, array };
    struct Side {
        uint64_t address = 0;
        size_t pitch = 0, slice = 0;  // bytes from row to row, from layer to layer
        End end = End::any;
    };
    Side to, from;
    size_t width = 0, height = 1, depth = 1;

    bool empty() const { return !width || !height || !depth; }
    bool flat() const { return height == 1 && depth == 1; }
};

inline Copy flat_copy(uint64_t to, Copy::End to_end, uint64_t from, Copy::End from_end,
                      size_t bytes)
{
    return {{to, 0, 0, to_end}, {from, 0, 0, from_end}, bytes, 1, 1};
}

// What CUDA_MEMCPY3D describes.
CUresult read_copy(const CUDA_MEMCPY3D *, Copy &);
// Whether both ends may be touched. Nothing to copy is always fine.
CUresult check(const Copy &);
void perform(const Copy &);

// In the stream's order; returns when it is done.
CUresult copy_now(Stream &, const Copy &);
// As CUDA does: with pageable memory at an end, that memory is free for use when this returns.
CUresult copy_async(Stream &, const Copy &);

// `width` elements of 1, 2 or 4 bytes in each of `height` rows.
struct Fill {
    uint64_t address = 0;
    size_t pitch = 0;
    uint32_t value = 0;
    unsigned element = 1;
    size_t width = 0, height = 1;
};

void perform(const Fill &);
CUresult check(const Fill &);

}  // namespace rgpu::softgpu::driver
