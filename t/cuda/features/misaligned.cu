// SPDX-License-Identifier: Apache-2.0
// An access that is not aligned to its size is CUDA_ERROR_MISALIGNED_ADDRESS for the context. A
// process may have to end then, so the program starts itself for each access.
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

template <class T> __global__ void load(const char *p, T *out, int step)
{
    T sum = 0;
    for (int i = 0; i < 4; i++) sum += *(const T *)(p + i * step);
    *out = sum;
}
__global__ void shared_store(int at)
{
    __shared__ char room[64];
    *(volatile float *)(room + at) = 1.0f;
    __syncthreads();
    if (room[at] == 2) __trap();
}
__global__ void wide(const float *p, float4 *out) { *out = *(const float4 *)p; }
__global__ void count(int *p) { atomicAdd(p, 1); }

template <class Launch> static void refused(const char *what, Launch launch)
{
    char *memory;
    CHECK(cudaMalloc(&memory, 4096));
    CHECK(cudaMemset(memory, 0, 4096));
    launch(memory, 0);  // aligned
    expect(cudaDeviceSynchronize(), cudaSuccess, what, __LINE__);
    launch(memory, 1);
    expect(cudaDeviceSynchronize(), cudaErrorMisalignedAddress, what, __LINE__);
    // It stays.
    void *more;
    FAILS(cudaMalloc(&more, 16), cudaErrorMisalignedAddress);
    FAILS(cudaDeviceSynchronize(), cudaErrorMisalignedAddress);
    // CUDA: the process must be relaunched. A reset helps with the software GPU.
    CHECK(cudaDeviceReset());
    const cudaError_t again = cudaMalloc(&more, 16);
    TRUE(again == cudaSuccess || again == cudaErrorDevicesUnavailable);
}

static void refused(int number)
{
    const auto is = [&] { return number-- == 0; };
    if (is())
        refused("ints",
                [](char *m, int k) { load<int><<<1, 1>>>(m + 2 * k, (int *)(m + 1024), 4); });
    if (is())
        refused("doubles", [](char *m, int k) {
            load<double><<<1, 1>>>(m, (double *)(m + 1024), k ? 12 : 16);
        });
    if (is()) refused("shared memory", [](char *, int k) { shared_store<<<1, 32>>>(2 * k); });
    if (is())
        refused("four floats",
                [](char *m, int k) { wide<<<1, 1>>>((float *)m + 2 * k, (float4 *)(m + 1024)); });
    if (is()) refused("an atomic", [](char *m, int k) { count<<<1, 64>>>((int *)(m + 2 * k)); });
}

int main(int argc, char **argv)
{
    if (argc > 1) return refused(atoi(argv[1])), 0;
    for (int i = 0; i < 5; i++) {
        const pid_t child = fork();
        if (child == 0) {
            execl("/proc/self/exe", argv[0], std::to_string(i).c_str(), nullptr);
            _exit(9);
        }
        int status = 1;
        TRUE(waitpid(child, &status, 0) == child && status == 0);
    }
    return right();
}
