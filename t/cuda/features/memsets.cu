// SPDX-License-Identifier: Apache-2.0
// Memory set in all widths, flat and in two dimensions; misaligned and too long ones are refused,
// and so are those whose size is no number of 64 bits.
#include "check.h"

int main()
{
    CHECK(cudaFree(nullptr));
    CUdeviceptr p;
    const size_t n = 4096;
    DRIVER(cuMemAlloc(&p, n));
    std::vector<unsigned char> want(n), got(n);
    const auto same = [&](int line) {
        DRIVER(cuMemcpyDtoH(got.data(), p, n));
        if (got != want) printf("line %d: not what was set\n", line), exit(1);
    };
    DRIVER(cuMemsetD8(p, 0xAB, n));
    memset(want.data(), 0xAB, n);
    same(__LINE__);
    DRIVER(cuMemsetD16(p + 2, 0x1234, 100));
    for (int i = 0; i < 100; i++) want[2 + 2 * i] = 0x34, want[3 + 2 * i] = 0x12;
    same(__LINE__);
    DRIVER(cuMemsetD32Async(p + 1024, 0xDEADBEEF, 50, nullptr));
    for (unsigned i = 0, v = 0xDEADBEEF; i < 50; i++) memcpy(&want[1024 + 4 * i], &v, 4);
    DRIVER(cuMemsetD2D8(p + 2048, 64, 7, 10, 5));
    DRIVER(cuMemsetD2D16(p + 2048 + 16, 64, 0x0102, 8, 5));
    DRIVER(cuMemsetD2D32(p + 2048 + 40, 64, 9, 4, 5));
    for (int y = 0; y < 5; y++) {
        memset(&want[2048 + 64 * y], 7, 10);
        for (int i = 0; i < 8; i++)
            want[2048 + 64 * y + 16 + 2 * i] = 2, want[2048 + 64 * y + 17 + 2 * i] = 1;
        for (unsigned i = 0, v = 9; i < 4; i++) memcpy(&want[2048 + 64 * y + 40 + 4 * i], &v, 4);
    }
    same(__LINE__);
    DRIVER_FAILS(cuMemsetD16(p + 1, 0, 1), CUDA_ERROR_INVALID_VALUE);
    DRIVER_FAILS(cuMemsetD32(p + 2, 0, 1), CUDA_ERROR_INVALID_VALUE);
    DRIVER_FAILS(cuMemsetD8(p, 0, n + 1), CUDA_ERROR_INVALID_VALUE);
    if (!by_rgpu()) return right();
    // Sizes that come out as 0, 4 and 8 bytes where they are computed in 64 bits. NVIDIA's driver
    // sets so many bytes.
    const size_t half = size_t{1} << 63, quarter = size_t{1} << 62;
    DRIVER_FAILS(cuMemsetD16(p, 0, half), CUDA_ERROR_INVALID_VALUE);
    DRIVER_FAILS(cuMemsetD16(p, 0, half + 2), CUDA_ERROR_INVALID_VALUE);
    DRIVER_FAILS(cuMemsetD32(p, 0, quarter), CUDA_ERROR_INVALID_VALUE);
    DRIVER_FAILS(cuMemsetD32(p, 0, quarter + 2), CUDA_ERROR_INVALID_VALUE);
    DRIVER_FAILS(cuMemsetD32Async(p, 0, quarter + 1, nullptr), CUDA_ERROR_INVALID_VALUE);
    DRIVER_FAILS(cuMemsetD2D16(p, 64, 0, half + 2, 2), CUDA_ERROR_INVALID_VALUE);
    DRIVER_FAILS(cuMemsetD2D32(p, 64, 0, quarter + 2, 1), CUDA_ERROR_INVALID_VALUE);
    DRIVER_FAILS(cuMemsetD2D32(p, 64, 0, quarter + 2, 2), CUDA_ERROR_INVALID_VALUE);
    DRIVER_FAILS(cuMemsetD2D8(p, half, 0, 4, 3), CUDA_ERROR_INVALID_VALUE);
    DRIVER_FAILS(cuMemsetD2D32Async(p, quarter, 0, 1, 5, nullptr), CUDA_ERROR_INVALID_VALUE);
    same(__LINE__);
    DRIVER(cuMemFree(p));
    return right();
}
