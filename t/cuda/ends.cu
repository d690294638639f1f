// SPDX-License-Identifier: Apache-2.0
// What a program is told of what has ended, and of what cannot be: contexts that were destroyed
// here or in another thread, a device that was reset, functions of a module that is gone, and
// errors that a context does not get over.
#include "check.h"

#include <cuda.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

static int failures;
static void wants(int line, CUresult got, CUresult wanted)
{
    if (got == wanted) return;
    printf("line %d: %d, not %d\n", line, got, wanted);
    failures++;
}
#define WANTS(call, wanted) wants(__LINE__, call, wanted)
#define DRIVER(call) WANTS(call, CUDA_SUCCESS)
#define HOLDS(x) \
    do \
        if (!(x)) printf("line %d: not true: %s\n", __LINE__, #x), failures++; \
    while (0)

static const std::string kHead = ".version 7.0\n.target sm_70\n.address_size 64\n";
static const std::string kStore =
    ".visible .entry store(.param .u64 p, .param .u32 v) {\n"
    ".reg .u64 %a; .reg .u32 %v;\n"
    "ld.param.u64 %a, [p]; ld.param.u32 %v, [v]; st.global.u32 [%a], %v; ret; }\n";
static const std::string kTrap = ".visible .entry trapped() { trap; }\n";
static const std::string kShared =
    ".visible .entry with_shared() { .shared .align 4 .b8 s[512]; .reg .u32 %r;\n"
    "mov.u32 %r, s; st.shared.u32 [%r], %r; ret; }\n";

// cuda.h's own cuCtxCreate has other parameters from one version to the next.
static CUresult create(CUcontext *c)
{
    static const auto call = [] {
        void *found = nullptr;
        DRIVER(cuGetProcAddress("cuCtxCreate", &found, 3020, 0, nullptr));
        return reinterpret_cast<CUresult (*)(CUcontext *, unsigned, CUdevice)>(found);
    }();
    return call(c, 0, 0);
}

static CUmodule load(const std::string &code)
{
    CUmodule m = nullptr;
    DRIVER(cuModuleLoadData(&m, (kHead + code).c_str()));
    return m;
}

static CUfunction function(CUmodule m, const char *name)
{
    CUfunction f = nullptr;
    DRIVER(cuModuleGetFunction(&f, m, name));
    return f;
}

static CUresult store(CUfunction f, CUdeviceptr to, int value, CUstream stream = nullptr)
{
    void *arguments[] = {&to, &value};
    return cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr);
}

static int at(CUdeviceptr p)
{
    int value = -1;
    DRIVER(cuMemcpyDtoH(&value, p, sizeof value));
    return value;
}

static void functions()
{
    const auto only = [](CUmodule m) {
        unsigned count = 0;
        DRIVER(cuModuleGetFunctionCount(&count, m));
        HOLDS(count == 1);
        CUfunction f = nullptr;
        DRIVER(cuModuleEnumerateFunctions(&f, 1, m));
        return f;
    };
    const auto shared = [](CUfunction f) {
        int bytes = -1;
        DRIVER(cuFuncGetAttribute(&bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, f));
        return bytes;
    };
    CUmodule first = load(kStore);
    HOLDS(shared(only(first)) == 0);
    HOLDS(only(first) == function(first, "store"));
    DRIVER(cuModuleUnload(first));
    CUmodule second = load(kShared);
    CUfunction f = only(second);
    HOLDS(shared(f) == 512);
    for (int i = 0; i < 100; i++) HOLDS(function(second, "with_shared") == f);
    DRIVER(cuModuleUnload(second));

    CUlibrary library;
    CUkernel kernel, again;
    CUfunction of_kernel, same;
    DRIVER(cuLibraryLoadData(&library, (kHead + kStore).c_str(), nullptr, nullptr, 0, nullptr,
                             nullptr, 0));
    DRIVER(cuLibraryGetKernel(&kernel, library, "store"));
    DRIVER(cuLibraryGetKernel(&again, library, "store"));
    DRIVER(cuKernelGetFunction(&of_kernel, kernel));
    DRIVER(cuKernelGetFunction(&same, kernel));
    HOLDS(kernel == again && of_kernel == same);
    DRIVER(cuLibraryUnload(library));
}

static void contexts()
{
    CUcontext mine, other, now;
    DRIVER(cuCtxGetCurrent(&mine));
    DRIVER(create(&other));
    CUmodule module = load(kStore);
    CUfunction f = function(module, "store");
    CUdeviceptr word;
    CUstream stream;
    CUevent event;
    DRIVER(cuMemAlloc(&word, 4));
    DRIVER(cuStreamCreate(&stream, 0));
    DRIVER(cuEventCreate(&event, 0));
    DRIVER(cuEventRecord(event, stream));
    DRIVER(store(f, word, 1, stream));
    DRIVER(cuCtxPopCurrent(&now));
    HOLDS(now == other);
    WANTS(store(f, word, 2), CUDA_ERROR_INVALID_HANDLE);

    // Another thread has it as its current one, and one below that.
    DRIVER(cuCtxPushCurrent(other));
    DRIVER(cuCtxPushCurrent(mine));
    std::thread([&] {
        DRIVER(cuCtxSetCurrent(other));
        std::thread([&] {
            DRIVER(cuCtxSetCurrent(other));
            DRIVER(cuCtxDestroy(other));
            DRIVER(cuCtxGetCurrent(&now));
            HOLDS(!now);
        }).join();
        CUcontext next;
        std::thread([&] { DRIVER(create(&next)); }).join();
        DRIVER(cuCtxGetCurrent(&now));
        HOLDS(now == other);
        CUdeviceptr p;
        CUstream s;
        WANTS(cuMemAlloc(&p, 4), CUDA_ERROR_CONTEXT_IS_DESTROYED);
        WANTS(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
        WANTS(cuStreamCreate(&s, 0), CUDA_ERROR_CONTEXT_IS_DESTROYED);
        DRIVER(cuCtxDestroy(next));
    }).join();
    for (CUcontext expected : {mine, other}) {
        DRIVER(cuCtxPopCurrent(&now));
        HOLDS(now == expected);
    }
    DRIVER(cuCtxGetCurrent(&now));
    HOLDS(now == mine);
    if (by_rgpu()) {  // their handles mean nothing now
        WANTS(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
        WANTS(cuStreamDestroy(stream), CUDA_ERROR_INVALID_HANDLE);
        WANTS(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
        WANTS(cuEventDestroy(event), CUDA_ERROR_INVALID_HANDLE);
        WANTS(store(f, word, 2), CUDA_ERROR_INVALID_HANDLE);
        WANTS(cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
        WANTS(cuCtxSetCurrent(other), CUDA_ERROR_INVALID_CONTEXT);
    }
}

static __global__ void increment(int *p) { *p += 1; }

static void resets()
{
    for (int i = 0; i < 3; i++) {
        int *word, value = i;
        CHECK(cudaMalloc(&word, 4));
        CHECK(cudaMemcpy(word, &value, 4, cudaMemcpyHostToDevice));
        increment<<<1, 1, 0, cudaStreamPerThread>>>(word);
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpyAsync(&value, word, 4, cudaMemcpyDeviceToHost, cudaStreamPerThread));
        CHECK(cudaStreamSynchronize(cudaStreamPerThread));
        TRUE(value == i + 1);
        cudaEvent_t event;
        CHECK(cudaEventCreate(&event));
        CHECK(cudaDeviceReset());
        if (by_rgpu()) TRUE(cudaEventQuery(event) == cudaErrorInvalidResourceHandle);
        cudaGetLastError();
    }
}

static void launches(CUdeviceptr p)
{
    CUmodule module = load(kStore);
    CUfunction f = function(module, "store");
    int value = 9;
    void *arguments[] = {&p, &value}, *none[] = {CU_LAUNCH_PARAM_END};
    WANTS(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, none),
          CUDA_ERROR_INVALID_VALUE);
    CUlaunchConfig config{1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, 1};
    if (by_rgpu())
        WANTS(cuLaunchKernelEx(&config, f, arguments, nullptr), CUDA_ERROR_INVALID_VALUE);
    CUlaunchAttribute attributes[3] = {};
    attributes[0].id = CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW;
    attributes[1].id = CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
    attributes[1].value.sharedMemCarveout = 50;
    attributes[2].id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT;
    CUevent event;
    DRIVER(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    attributes[2].value.launchCompletionEvent.event = event;
    config.attrs = attributes, config.numAttrs = 3;
    DRIVER(cuLaunchKernelEx(&config, f, arguments, nullptr));
    DRIVER(cuEventSynchronize(event));
    HOLDS(at(p) == 9);

    CUstream stream;
    int priority = 0, least, greatest;
    DRIVER(cuCtxGetStreamPriorityRange(&least, &greatest));
    DRIVER(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, greatest - 5));
    DRIVER(cuStreamGetPriority(stream, &priority));
    HOLDS(priority == greatest);
    WANTS(cuEventRecordWithFlags(event, stream, 6), CUDA_ERROR_INVALID_VALUE);
    DRIVER(cuStreamDestroy(stream));
    DRIVER(cuEventDestroy(event));
    DRIVER(cuModuleUnload(module));
}

static void at_once()
{
    CUdeviceptr p;
    DRIVER(cuMemAlloc(&p, 4096));
    WANTS(cuMemsetD32(p + 1, 1, 1), CUDA_ERROR_INVALID_VALUE);
    WANTS(cuMemsetD16(p + 1, 1, 1), CUDA_ERROR_INVALID_VALUE);
    WANTS(cuMemsetD2D32(p, 18, 1, 2, 2), CUDA_ERROR_INVALID_VALUE);
    DRIVER(cuMemsetD2D32(p, 20, 7, 2, 2));
    HOLDS(at(p + 24) == 7);

    CUDA_ARRAY_DESCRIPTOR shape{16, 4, CU_AD_FORMAT_SIGNED_INT32, 1};
    CUarray array;
    DRIVER(cuArrayCreate(&array, &shape));
    CUDA_MEMCPY2D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE, copy.srcDevice = p, copy.srcPitch = 128;
    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY, copy.dstArray = array;
    copy.WidthInBytes = 64, copy.Height = 4;
    DRIVER(cuMemcpy2D(&copy));
    copy.Height = 5;
    WANTS(cuMemcpy2D(&copy), CUDA_ERROR_INVALID_VALUE);
    copy.Height = 4, copy.WidthInBytes = 68;
    WANTS(cuMemcpy2DAsync(&copy, nullptr), CUDA_ERROR_INVALID_VALUE);
    int words[32] = {};
    WANTS(cuMemcpyHtoA(array, 4 * 64, words, 4), CUDA_ERROR_INVALID_VALUE);
    DRIVER(cuArrayDestroy(array));

    alignas(4096) static char host[8192];
    unsigned flags;
    WANTS(cuMemHostRegister(host, sizeof host, 1u << 7), CUDA_ERROR_INVALID_VALUE);
    DRIVER(cuMemHostRegister(host, sizeof host, CU_MEMHOSTREGISTER_DEVICEMAP));
    WANTS(cuMemHostGetFlags(&flags, host), CUDA_ERROR_INVALID_VALUE);
    DRIVER(cuMemHostUnregister(host));
    WANTS(cuMemFree(p + 4), CUDA_ERROR_INVALID_VALUE);
    launches(p);
    DRIVER(cuMemFree(p));
    DRIVER(cuCtxSynchronize());
}

// The last of all: what comes after a trap is the program's end.
static void broken()
{
    CUmodule module = load(kStore + kTrap);
    CUfunction trapped = function(module, "trapped"), stores = function(module, "store");
    CUdeviceptr word;
    DRIVER(cuMemAlloc(&word, 4));
    DRIVER(cuLaunchKernel(trapped, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
    WANTS(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
    WANTS(store(stores, word, 2), CUDA_ERROR_LAUNCH_FAILED);
    WANTS(cuMemsetD32(word, 1, 1), CUDA_ERROR_LAUNCH_FAILED);
    WANTS(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
}

// A primary context that nobody retains is destroyed, for the thread too whose current one it
// stays; retained again it is good again.
static void released()
{
    CUcontext primary;
    CUdeviceptr p, q;
    CUdevice device;
    CUevent event;
    CUstream stream;
    unsigned flags;
    int value = 0;
    void *host;
    size_t free, total;
    DRIVER(cuInit(0));
    for (int i = 0; i < 2; i++) {
        DRIVER(cuDevicePrimaryCtxRetain(&primary, 0));
        DRIVER(cuCtxSetCurrent(primary));
        DRIVER(cuMemAlloc(&p, 64));
        DRIVER(cuMemcpyHtoD(p, &value, sizeof value));
        DRIVER(i ? cuDevicePrimaryCtxReset(0) : cuDevicePrimaryCtxRelease(0));
        for (CUresult r : {cuMemcpyDtoH(&value, p, 4),
                           cuMemcpyHtoD(p, &value, 4),
                           cuMemcpyDtoD(p, p + 8, 4),
                           cuMemcpy(p, p + 8, 4),
                           cuMemsetD8(p, 0, 4),
                           cuMemsetD2D32Async(p, 8, 0, 1, 2, nullptr),
                           cuMemAlloc(&q, 4),
                           cuMemFree(p),
                           cuMemHostAlloc(&host, 4, 0),
                           cuMemAllocManaged(&q, 4, CU_MEM_ATTACH_GLOBAL),
                           cuMemAllocAsync(&q, 4, nullptr),
                           cuMemHostRegister(&value, 4, 0),
                           cuMemGetInfo(&free, &total),
                           cuCtxSynchronize(),
                           cuStreamSynchronize(nullptr),
                           cuStreamQuery(nullptr),
                           cuEventCreate(&event, 0),
                           cuStreamCreate(&stream, 0),
                           cuCtxGetFlags(&flags),
                           cuCtxGetStreamPriorityRange(&value, &value),
                           cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_L1),
                           cuStreamWriteValue32(nullptr, p, 1, 0),
                           cuStreamWaitValue32(nullptr, p, 1, 0),
                           cuLaunchHostFunc(
                               nullptr, [](void *) {}, nullptr)})
            WANTS(r, CUDA_ERROR_CONTEXT_IS_DESTROYED);
        DRIVER(cuCtxGetDevice(&device));
    }
    DRIVER(cuDevicePrimaryCtxRetain(&primary, 0));
    DRIVER(cuCtxSynchronize());
    DRIVER(cuMemAlloc(&p, 4096));
    DRIVER(cuMemAlloc(&q, 4096));
    DRIVER(cuMemFree(q));
    if (by_rgpu()) {  // to NVIDIA's driver such addresses are the program's own
        WANTS(cuMemcpy(q, p, 4), CUDA_ERROR_INVALID_VALUE);
        WANTS(cuMemcpy(q, q + 8, 4), CUDA_ERROR_INVALID_VALUE);
        WANTS(cuMemcpy(reinterpret_cast<CUdeviceptr>(&value), q, 4), CUDA_ERROR_INVALID_VALUE);
    }
    // Told by the call itself, and not by one that comes later.
    WANTS(cuStreamWriteValue32(nullptr, p, 1, 0x40), CUDA_ERROR_INVALID_VALUE);
    if (by_rgpu()) {
        WANTS(cuStreamWriteValue32(nullptr, q, 1, 0), CUDA_ERROR_INVALID_VALUE);
        WANTS(cuStreamWriteValue32(nullptr, p + 4096, 1, 0), CUDA_ERROR_INVALID_VALUE);
    }
    WANTS(cuStreamWaitValue32(nullptr, p, 1, 0x10), CUDA_ERROR_INVALID_VALUE);
    CUstreamBatchMemOpParams write{};
    write.writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, p, {7}, 0x40, 0};
    WANTS(cuStreamBatchMemOp(nullptr, 1, &write, 0), CUDA_ERROR_INVALID_VALUE);
    DRIVER(cuCtxSynchronize());
    DRIVER(cuMemFree(p));
    // Twice: the reset one counts as retained until it is released.
    while (cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS) continue;
    DRIVER(cuCtxSetCurrent(nullptr));
}

int main()
{
    setvbuf(stdout, nullptr, _IOLBF, 0);  // what was found stays, should the driver crash
    released();
    resets();
    CHECK(cudaFree(nullptr));
    functions();
    contexts();
    at_once();
    broken();
    if (!failures) puts("right");
    return failures != 0;
}
