// SPDX-License-Identifier: Apache-2.0
// Calls that end what work may still use may wait for that work, and the work for a host function:
// other threads, one of which the host function waits for, go on meanwhile.
#include "check.h"

#include <atomic>
#include <thread>

static const char kPtx[] = ".version 7.0\n.target sm_50\n.address_size 64\n"
                           ".visible .global .b8 buffer[65536];\n"
                           ".visible .entry nothing()\n{\n  ret;\n}\n";

static std::atomic<bool> ending, open_gate;
static void wait_at_gate(void *)
{
    while (!open_gate) std::this_thread::yield();
}

// Takes and uses device memory beside the thread that ends things, and then opens the gate.
static void go_on(CUcontext context, CUmodule *loaded)
{
    DRIVER(cuCtxSetCurrent(context));
    while (!ending) std::this_thread::yield();
    CUstream s;
    DRIVER(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 16; i++) {
        CUdeviceptr p;
        DRIVER(cuMemAlloc(&p, 4096));
        DRIVER(cuMemsetD8Async(p, 1, 4096, s));
        DRIVER(cuStreamSynchronize(s));
    }
    DRIVER(cuModuleLoadData(loaded, kPtx));
    open_gate = true;
}

static void ends(bool library)
{
    CUcontext context;
    CUmodule module, after;
    CUlibrary lib;
    CUarray array;
    CUdeviceptr p, large;
    CUstream s;
    CUDA_ARRAY_DESCRIPTOR shape{64, 64, CU_AD_FORMAT_FLOAT, 1};
    DRIVER(cuCtxGetCurrent(&context));
    DRIVER(cuModuleLoadData(&module, kPtx));
    DRIVER(cuLibraryLoadData(&lib, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0));
    CUdeviceptr in_library;
    size_t bytes;
    DRIVER(cuLibraryGetGlobal(&in_library, &bytes, lib, "buffer"));
    DRIVER(cuArrayCreate(&array, &shape));
    DRIVER(cuMemAlloc(&p, 4096));
    DRIVER(cuMemAlloc(&large, 3 << 20));
    DRIVER(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    open_gate = ending = false;
    DRIVER(cuLaunchHostFunc(s, wait_at_gate, nullptr));
    DRIVER(cuMemsetD8Async(p, 2, 4096, s));
    std::thread other(go_on, context, &after);
    ending = true;
    if (library) DRIVER(cuLibraryUnload(lib));
    DRIVER(cuModuleUnload(module));
    DRIVER(cuArrayDestroy(array));
    DRIVER(cuMemFree(large));
    DRIVER(cuMemFree(p));
    other.join();
    DRIVER(cuStreamSynchronize(s));
    if (!library) DRIVER(cuLibraryUnload(lib));
    DRIVER(cuCtxSynchronize());
    CUfunction f;
    DRIVER(cuModuleGetFunction(&f, after, "nothing"));
    DRIVER(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
    DRIVER(cuCtxSynchronize());
    DRIVER(cuModuleUnload(after));
}

int main()
{
    CHECK(cudaFree(nullptr));
    size_t before = 0, after = 0, total = 0;
    for (int i = 0; i < 8; i++) {
        ends(i % 2);
        DRIVER(cuMemGetInfo(&after, &total));
        if (i == 1) before = after;
    }
    // What each round leaves: sixteen pieces of 4096 bytes, which share pages of 2 MiB.
    EXPECT(before - after <= 6 * (2 << 20), "%zu bytes are free, and %zu were", after, before);
    return right();
}
