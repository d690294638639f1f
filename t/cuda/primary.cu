// SPDX-License-Identifier: Apache-2.0
// The primary context, from the first question to its end: whoever else may have made one, this
// process finds none. With the word "hold" it stays, its context with it, until it has read a line.
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#define CHECK(call) \
    do \
        if (CUresult r = (call)) printf("line %d: %s gave %d\n", __LINE__, #call, r), exit(1); \
    while (0)
#define TRUE(x) \
    do \
        if (!(x)) printf("line %d: not true: %s\n", __LINE__, #x), exit(1); \
    while (0)

static bool is_active(CUdevice device, unsigned expected_flags = 0)
{
    unsigned flags = 77;
    int active = -1;
    CHECK(cuDevicePrimaryCtxGetState(device, &flags, &active));
    TRUE(flags == expected_flags);
    TRUE(active == 0 || active == 1);
    return active;
}

static size_t available()
{
    size_t free = 0, total = 0;
    CHECK(cuMemGetInfo(&free, &total));
    return free;
}

int main(int argc, char **argv)
{
    constexpr size_t kBytes = 8 << 20;
    CHECK(cuInit(0));
    CUcontext context, again, current;
    CUdeviceptr p;

    // Nothing is there, and what is not there cannot be released.
    TRUE(!is_active(0));
    CHECK(cuCtxGetCurrent(&current));
    TRUE(!current);
    TRUE(cuDevicePrimaryCtxRelease(0) == CUDA_ERROR_INVALID_CONTEXT);
    TRUE(cuMemAlloc(&p, kBytes) == CUDA_ERROR_INVALID_CONTEXT);

    // With the last release everything in it goes.
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuDevicePrimaryCtxRetain(&again, 0));
    TRUE(context == again && is_active(0));
    CHECK(cuCtxSetCurrent(context));
    const size_t all = available();
    CHECK(cuMemAlloc(&p, kBytes));
    TRUE(available() <= all - kBytes);
    CHECK(cuDevicePrimaryCtxRelease(0));
    TRUE(is_active(0));
    CHECK(cuDevicePrimaryCtxRelease(0));
    TRUE(!is_active(0));
    CHECK(cuCtxSetCurrent(nullptr));
    TRUE(cuDevicePrimaryCtxRelease(0) == CUDA_ERROR_INVALID_CONTEXT);

    // The flags are those of the next.
    CHECK(cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_BLOCKING_SYNC));
    TRUE(!is_active(0, CU_CTX_SCHED_BLOCKING_SYNC));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    TRUE(is_active(0, CU_CTX_SCHED_BLOCKING_SYNC));
    CHECK(cuCtxSetCurrent(context));
    TRUE(available() == all);

    // A reset takes everything, too.
    CHECK(cuMemAlloc(&p, kBytes));
    CHECK(cuDevicePrimaryCtxReset(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    TRUE(available() == all);
    puts("ok");
    if (argc > 1 && !strcmp(argv[1], "hold")) {
        fflush(stdout);
        for (int c = 0; c != '\n' && c != EOF;) c = getchar();
    }
}
