// SPDX-License-Identifier: Apache-2.0
#include "softgpu/driver/state/copy.h"

#include <algorithm>
#include <cstring>

#include "softgpu/driver/state/memory.h"

namespace rgpu::softgpu::driver {

namespace {

// From its first byte to its last, or more than any address space has.
uint64_t extent(const Copy &c, const Copy::Side &s)
{
    const unsigned __int128 bytes = static_cast<unsigned __int128>(s.slice) * (c.depth - 1) +
                                    static_cast<unsigned __int128>(s.pitch) * (c.height - 1) +
                                    c.width;
    return bytes >> 48 ? ~uint64_t{0} : static_cast<uint64_t>(bytes);
}

}  // namespace

CUresult check(const Copy &c)
{
    if (c.empty()) return CUDA_SUCCESS;
    for (const Copy::Side *s : {&c.to, &c.from}) {
        if ((c.height > 1 && s->pitch < c.width) ||
            (c.depth > 1 && s->slice < s->pitch * (c.height - 1) + c.width))
            return CUDA_ERROR_INVALID_VALUE;
        if (s->end == Copy::End::array) continue;
        const uint64_t bytes = extent(c, *s);
        if (!(s->end == Copy::End::device ? device_may_touch : host_may_touch)(s->address, bytes,
                                                                               s == &c.to))
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

void perform(const Copy &c)
{
    for (size_t z = 0; z < c.depth; z++)
        for (size_t y = 0; y < c.height; y++)
            memmove(reinterpret_cast<void *>(c.to.address + z * c.to.slice + y * c.to.pitch),
                    reinterpret_cast<const void *>(c.from.address + z * c.from.slice +
                                                   y * c.from.pitch),
                    c.width);
}

CUresult check(const Fill &f)
{
    size_t row;
    if (__builtin_mul_overflow(f.width, f.element, &row) || f.address % f.element ||
        (f.height > 1 && (f.pitch % f.element || f.pitch < row)))
        return CUDA_ERROR_INVALID_VALUE;
    Copy as_copy;
    as_copy.width = row;
    as_copy.height = f.height;
    as_copy.to = {f.address, f.pitch, 0, Copy::End::device};
    return device_may_touch(f.address, extent(as_copy, as_copy.to), true)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

void perform(const Fill &f)
{
    for (size_t y = 0; y < f.height; y++) {
        const uint64_t row = f.address + y * f.pitch;
        switch (f.element) {
        case 1: memset(reinterpret_cast<void *>(row), static_cast<int>(f.value), f.width); break;
        case 2:
            std::fill_n(reinterpret_cast<uint16_t *>(row), f.width, static_cast<uint16_t>(f.value));
            break;
        default: std::fill_n(reinterpret_cast<uint32_t *>(row), f.width, f.value); break;
        }
    }
}

}  // namespace rgpu::softgpu::driver
