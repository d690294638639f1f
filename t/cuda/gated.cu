// SPDX-License-Identifier: Apache-2.0
// Work that waits for what the program sends behind it: a host function that waits for the program,
// many kernels behind it, and more behind those; a kernel behind a stream's wait for a value that a
// later call writes. None of it may hang, on a shared GPU too.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda.h>
#include <cuda_runtime.h>
#include <unistd.h>

#define CHECK(call) \
    do { \
        cudaError_t e = (call); \
        if (e != cudaSuccess) { \
            printf("%s: %s\n", #call, cudaGetErrorName(e)); \
            exit(1); \
        } \
    } while (0)
#define CHECK_CU(call) \
    do { \
        CUresult e = (call); \
        if (e != CUDA_SUCCESS) { \
            printf("%s: %d\n", #call, e); \
            exit(1); \
        } \
    } while (0)

template <int N> __global__ void add(unsigned *p) { atomicAdd(p, N); }

template <int N> static void launch(unsigned *p, cudaStream_t s)
{
    add<N><<<1, 1, 0, s>>>(p);
    CHECK(cudaGetLastError());
    if constexpr (N > 1) launch<N - 1>(p, s);
}

// Otherwise a driver may load each when it is first launched, and wait for all work then
// (CUDA_MODULE_LOADING).
template <int N> static void load_ahead()
{
    void (*kernel)(unsigned *) = add<N>;
    cudaFunction_t f;
    CHECK(cudaGetFuncBySymbol(&f, reinterpret_cast<const void *>(kernel)));
    CHECK_CU(cuFuncLoad(f));
    if constexpr (N > 1) load_ahead<N - 1>();
}

static std::atomic<bool> opened{false};
static void CUDART_CB gate(void *)
{
    while (!opened) usleep(100);
}

// gated [host]       only the first of the two
// gated new [host]   kernels are loaded when they are launched, behind what waits
int main(int argc, char **argv)
{
    const bool unloaded = argc > 1 && !strcmp(argv[1], "new");
    const bool only_host = argc > 1 + unloaded;
    unsigned *p, got = 0;
    cudaStream_t a, b;
    CHECK(cudaMalloc(&p, 2 * sizeof *p));
    CHECK(cudaMemset(p, 0, 2 * sizeof *p));
    CHECK(cudaDeviceSynchronize());  // streams that do not block are in no order with it
    CHECK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));

    if (!unloaded) load_ahead<40>();
    // Forty kernels that were never launched before, behind a host function that waits for us.
    CHECK(cudaLaunchHostFunc(a, gate, nullptr));
    launch<40>(p, a);
    // Something that is answered comes behind them.
    unsigned *q;
    CHECK(cudaMalloc(&q, 4));
    opened = true;
    CHECK(cudaStreamSynchronize(a));
    CHECK(cudaMemcpy(&got, p, sizeof got, cudaMemcpyDeviceToHost));
    printf("behind a host function: %u\n", got);
    if (got != 40 * 41 / 2) return 1;

    CUresult r = only_host ? CUDA_ERROR_NOT_SUPPORTED
                           : cuStreamWaitValue32((CUstream)a, (CUdeviceptr)(p + 1), 7,
                                                 CU_STREAM_WAIT_VALUE_EQ);
    if (r == CUDA_SUCCESS) {
        launch<40>(p, a);
        launch<40>(p, a);
        CHECK_CU(cuStreamWriteValue32((CUstream)b, (CUdeviceptr)(p + 1), 7,
                                      CU_STREAM_WRITE_VALUE_DEFAULT));
        CHECK(cudaStreamSynchronize(a));
        CHECK(cudaMemcpy(&got, p, sizeof got, cudaMemcpyDeviceToHost));
        printf("behind a value: %u\n", got);
        if (got != 3 * 40 * 41 / 2) return 1;
    }
    // A stream that ends right behind a launch.
    for (int i = 0; i < 20; ++i) {
        cudaStream_t s;
        CHECK(cudaStreamCreate(&s));
        launch<3>(p, s);
        CHECK(cudaStreamDestroy(s));
    }
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaDeviceReset());
    puts("ok");
    return 0;
}
