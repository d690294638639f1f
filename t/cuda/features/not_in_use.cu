// SPDX-License-Identifier: Apache-2.0
// Questions about features that the program does not use are answered, not refused, and so is a
// mere interest in them. What would use them is refused.
#include "check.h"

#include <dlfcn.h>
#include <unistd.h>

static void notified(CUasyncNotificationInfo *, void *, CUasyncCallbackHandle) {}
static void logged(void *, CUlogLevel, char *, size_t) {}

static void green_contexts(CUcontext context)
{
    CUgreenCtx green = reinterpret_cast<CUgreenCtx>(1);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    DRIVER(cuStreamGetGreenCtx(stream, &green));
    TRUE(!green);
    green = reinterpret_cast<CUgreenCtx>(1);
    DRIVER(cuStreamGetGreenCtx(nullptr, &green));
    TRUE(!green);
    DRIVER_FAILS(cuStreamGetGreenCtx(stream, nullptr), CUDA_ERROR_INVALID_VALUE);
    CHECK(cudaStreamDestroy(stream));

    int sms = 0;
    DRIVER(cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
    CUdevResource all, same;
    DRIVER(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
    TRUE(all.type == CU_DEV_RESOURCE_TYPE_SM && all.sm.smCount == unsigned(sms));
    DRIVER(cuCtxGetDevResource(context, &same, CU_DEV_RESOURCE_TYPE_SM));
    TRUE(!memcmp(&all, &same, sizeof all));
    DRIVER_FAILS(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_INVALID),
                 CUDA_ERROR_INVALID_RESOURCE_TYPE);
    DRIVER_FAILS(cuDeviceGetDevResource(99, &all, CU_DEV_RESOURCE_TYPE_SM),
                 CUDA_ERROR_INVALID_DEVICE);
    CUdevResource group;
    unsigned groups = 1;
    const CUresult split = cuDevSmResourceSplitByCount(&group, &groups, &all, nullptr, 0, 1);
    TRUE(split == CUDA_ERROR_NOT_SUPPORTED || (!by_rgpu() && split == CUDA_SUCCESS));
    CUexecAffinityParam affinity;
    DRIVER_FAILS(cuCtxGetExecAffinity(&affinity, CU_EXEC_AFFINITY_TYPE_SM_COUNT),
                 CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
}

// doc/driver-calls.md names these where it says why a call is refused.
static void attributes()
{
    for (CUdevice_attribute which :
         {CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH,
          CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED,
          CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS,
          CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK,
          CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED,
          CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED}) {
        int value = 1;
        DRIVER(cuDeviceGetAttribute(&value, which, 0));
        EXPECT(!value, "attribute %d is %d", static_cast<int>(which), value);
    }
}

static void memory_that_could_be_shared()
{
    CUmemAllocationProp p{};
    p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    size_t plain = 0, shared = 0;
    DRIVER(cuMemGetAllocationGranularity(&plain, &p, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    DRIVER(cuMemGetAllocationGranularity(&shared, &p, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    TRUE(plain && plain == shared);
    int supported = 1;
    DRIVER(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0));
    TRUE(!supported);
}

static void notifications()
{
    CUasyncCallbackHandle a = nullptr, b = nullptr;
    DRIVER(cuDeviceRegisterAsyncNotification(0, notified, nullptr, &a));
    DRIVER(cuDeviceRegisterAsyncNotification(0, notified, nullptr, &b));
    TRUE(a && b && a != b);
    DRIVER(cuDeviceUnregisterAsyncNotification(0, a));
    DRIVER_FAILS(cuDeviceUnregisterAsyncNotification(0, a), CUDA_ERROR_INVALID_VALUE);
    DRIVER(cuDeviceUnregisterAsyncNotification(0, b));
    DRIVER_FAILS(cuDeviceRegisterAsyncNotification(0, nullptr, nullptr, &a),
                 CUDA_ERROR_INVALID_VALUE);
}

static void logs()
{
    CUlogsCallbackHandle handle = nullptr;
    DRIVER(cuLogsRegisterCallback(logged, nullptr, &handle));
    TRUE(handle);
    CUlogIterator position = 7;
    DRIVER(cuLogsCurrent(&position, 0));
    char text[100] = "x";
    size_t bytes = sizeof text;
    DRIVER(cuLogsDumpToMemory(&position, text, &bytes, 0));
    TRUE(bytes == 0 && !text[0]);
    char path[] = "/tmp/rgpu-log-XXXXXX";
    const int fd = mkstemp(path);
    TRUE(fd >= 0);
    DRIVER(cuLogsDumpToFile(nullptr, path, 0));
    TRUE(lseek(fd, 0, SEEK_END) == 0);
    unlink(path);
    DRIVER_FAILS(cuLogsDumpToFile(nullptr, "/nowhere/log", 0), CUDA_ERROR_INVALID_VALUE);
    DRIVER(cuLogsUnregisterCallback(handle));
    DRIVER_FAILS(cuLogsUnregisterCallback(handle), CUDA_ERROR_INVALID_VALUE);
}

static void core_dumps()
{
    bool on = true;
    size_t bytes = sizeof on;
    DRIVER(cuCoredumpGetAttribute(CU_COREDUMP_ENABLE_ON_EXCEPTION, &on, &bytes));
    TRUE(!on);
    DRIVER(cuCoredumpSetAttribute(CU_COREDUMP_ENABLE_ON_EXCEPTION, &on, &bytes));
    on = true;
    DRIVER_FAILS(cuCoredumpSetAttributeGlobal(CU_COREDUMP_ENABLE_ON_EXCEPTION, &on, &bytes),
                 CUDA_ERROR_NOT_SUPPORTED);
    DRIVER(cuCoredumpGetAttributeGlobal(CU_COREDUMP_FILE, nullptr, &bytes));
    TRUE(bytes == 1024);
    char name[1024];
    DRIVER(cuCoredumpGetAttributeGlobal(CU_COREDUMP_FILE, name, &bytes));
    TRUE(!strncmp(name, "core.cuda.", 10) && strstr(name, std::to_string(getpid()).c_str()));
    bytes = 3;
    DRIVER_FAILS(cuCoredumpGetAttributeGlobal(CU_COREDUMP_FILE, name, &bytes),
                 CUDA_ERROR_INVALID_VALUE);
}

// By dlsym and by cuGetProcAddress; refused at its use.
static void graphics()
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    TRUE(library);
    using Register = CUresult (*)(CUgraphicsResource *, unsigned, unsigned);
    for (const char *name : {"cuGraphicsGLRegisterBuffer", "cuEGLStreamConsumerConnect",
                             "cuVDPAUGetDevice", "cuGLGetDevices"}) {
        void *function = nullptr;
        CUdriverProcAddressQueryResult status;
        DRIVER(cuGetProcAddress(name, &function, CUDA_VERSION, 0, &status));
        TRUE(status == CU_GET_PROC_ADDRESS_SUCCESS && function && dlsym(library, name));
    }
    CUgraphicsResource r;
    const auto f = reinterpret_cast<Register>(dlsym(library, "cuGraphicsGLRegisterBuffer"));
    DRIVER_FAILS(f(&r, 1, 0), CUDA_ERROR_NOT_SUPPORTED);
}

int main()
{
    CHECK(cudaFree(nullptr));
    CUcontext context;
    DRIVER(cuCtxGetCurrent(&context));
    green_contexts(context);
    if (by_rgpu()) {  // NVIDIA's driver has these features, and things to tell of
        attributes();
        memory_that_could_be_shared();
        notifications();
        logs();
        core_dumps();
        graphics();
    }
    CUprocessState state = CU_PROCESS_STATE_FAILED;
    DRIVER(cuCheckpointProcessGetState(getpid(), &state));
    TRUE(state == CU_PROCESS_STATE_RUNNING);
    return right();
}
