// SPDX-License-Identifier: Apache-2.0
// Copying and setting memory: what every cuMemcpy* and cuMemset* comes down to.
//
// check() answers for a call, before anything is done; perform() does it, on the thread that calls,
// and expects what was checked. graph/submit.h gives both to a stream.
#pragma once

#include <cstddef>
#include <cstdint>

#include "calls/cuda_api.h"

namespace rgpu::softgpu::driver {

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

// Whether both ends may be touched. Nothing to copy is always fine.
CUresult check(const Copy &);
void perform(const Copy &);

// `width` elements of 1, 2 or 4 bytes in each of `height` rows.
struct Fill {
    uint64_t address = 0;
    size_t pitch = 0;
    uint32_t value = 0;
    unsigned element = 1;
    size_t width = 0, height = 1;

    bool empty() const { return !width || !height; }
};

void perform(const Fill &);
CUresult check(const Fill &);

}  // namespace rgpu::softgpu::driver
