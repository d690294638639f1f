// SPDX-License-Identifier: Apache-2.0
// What the test programs are made of: calls that must succeed or fail, and conditions that must
// hold. A violation prints its line and ends the program with 1.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

inline std::string name_of(cudaError_t error) { return cudaGetErrorName(error); }
// Of the toolkit's libraries (cuFFT, cuRAND, NVRTC ...): the number of their status.
template <typename Status> std::string name_of(Status status)
{
    return std::to_string(int(status));
}

template <typename Status> void expect(Status got, Status wanted, const char *call, int line)
{
    if (got == wanted) return;
    printf("line %d: %s gave %s, not %s\n", line, call, name_of(got).c_str(),
           name_of(wanted).c_str());
    exit(1);
}

template <typename Status> void succeeds(Status got, const char *call, int line)
{
    expect(got, Status(0), call, line);
}

#define CHECK(call) succeeds(call, #call, __LINE__)
#define FAILS(call, error) expect(call, error, #call, __LINE__)
#define TRUE(x) \
    do \
        if (!(x)) printf("line %d: not true: %s\n", __LINE__, #x), exit(1); \
    while (0)
// False where contrib/gpu-check runs the program on NVIDIA's driver itself. What CUDA promises of
// no driver (handles of what has ended, sizes that overflow) is asked of rgpu and the software GPU
// alone: NVIDIA's driver may crash.
inline bool by_rgpu() { return !getenv("RGPU_CHECK_DIRECTLY"); }
// Whether the GPU is the software GPU, here or behind rgpu.
inline bool on_softgpu()
{
    cudaDeviceProp device;
    succeeds(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties", __LINE__);
    return strstr(device.name, "software");
}
// Loads a kernel. Otherwise a driver may load it when it is first launched, and wait for all work
// of the context then (CUDA_MODULE_LOADING): for ever where that work waits for the program.
template <class Kernel> void load_ahead(Kernel *kernel)
{
    cudaFunction_t function;
    succeeds(cudaGetFuncBySymbol(&function, reinterpret_cast<const void *>(kernel)),
             "cudaGetFuncBySymbol", __LINE__);
    if (cuFuncLoad(function)) printf("a kernel cannot be loaded\n"), exit(1);
}
// With a text, as printf(3)'s, that says what was found.
#define EXPECT(condition, ...) \
    do { \
        if (!(condition)) { \
            printf("line %d: %s: ", __LINE__, #condition); \
            printf(__VA_ARGS__); \
            printf("\n"); \
            exit(1); \
        } \
    } while (0)
