// SPDX-License-Identifier: Apache-2.0
// Copies between linear memory and arrays, and among arrays: so many of each as the argument says
// (3). Says "copied", and ends with its standard input if it was given a number.
#include "check.h"

#include <unistd.h>

int main(int argc, char **argv)
{
    const int count = argc > 1 ? atoi(argv[1]) : 3;
    constexpr size_t kBytes = 64;
    CHECK(cudaFree(nullptr));
    CUDA_ARRAY_DESCRIPTOR shape{kBytes, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1};
    CUarray one, two;
    CUdeviceptr from, to;
    DRIVER(cuArrayCreate(&one, &shape));
    DRIVER(cuArrayCreate(&two, &shape));
    DRIVER(cuMemAlloc(&from, kBytes));
    DRIVER(cuMemAlloc(&to, kBytes));
    for (int i = 1; i <= count; i++) {
        unsigned char last = 0;
        DRIVER(cuMemsetD8(from, static_cast<unsigned char>(i), kBytes));
        DRIVER(cuMemcpyDtoA(one, 0, from, kBytes));
        DRIVER(cuMemcpyAtoA(two, 0, one, 0, kBytes));
        DRIVER(cuMemcpyAtoD(to, two, 0, kBytes));
        DRIVER(cuMemcpyDtoH(&last, to + kBytes - 1, 1));
        EXPECT(last == static_cast<unsigned char>(i), "%d", last);
    }
    puts("copied");
    fflush(stdout);
    char c;
    while (argc > 1 && read(0, &c, 1) > 0) {}
    return right();
}
