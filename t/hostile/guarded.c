// SPDX-License-Identifier: Apache-2.0
/* A CUDA program that gets into need: of threads, addresses, descriptors or memory. It uses the
 * driver only, so that whatever ends it is the driver's fault.
 *
 * guarded LIBCUDA nproc|as|nofile N   calls everything below that limit (as: MiB more than the
 * process has when the driver is open), then raises the limit again, and does it once more guarded
 * LIBCUDA malloc FROM TO STEP [MANY]  a process for each n: its n-th request for memory fails, MANY
 * in a row, or all from then on ("for_ever"); then the rest is tried again with memory. Needs
 * LD_PRELOAD of malloc_fails.c
 * guarded LIBCUDA once                calls everything
 * guarded LIBCUDA rounds FROM TO      a process for each, which does so
 * guarded LIBCUDA cancel              a thread that waits for the GPU is cancelled: it goes to the
 * end of its call, and the others go on
 *
 * Prints "CALL RESULT" for each result, once, "wrong: WHAT" where success was not what it should
 * be, and "ended" at the end. Exit status: 0, or 1 where something was wrong.
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>

#include "need.h"

static const char ptx[] =
    ".version 7.0\n.target sm_50\n.address_size 64\n"
    ".visible .global .align 4 .u32 variable;\n.visible .global .attribute(.managed) .align 4 .u32 "
    "shared;\n"
    ".visible .entry add(.param .u64 p, .param .u32 n)\n{\n"
    ".reg .u64 %a;\n.reg .u32 %b, %c;\n"
    "ld.param.u64 %a, [p];\nld.param.u32 %b, [n];\n"
    "ld.global.u32 %c, [%a];\nadd.u32 %c, %c, %b;\nst.global.u32 [%a], %c;\nret;\n}\n";

static volatile int host_calls;
static void CUDA_CB on_host(void *data) { (void)data, host_calls++; }

enum { kBytes = 1 << 20, kAround = 64 << 10 };

/* What the program gives to the driver, between bytes that it does not give. */
static struct {
    unsigned char before[kAround], from[kBytes], between[kAround], to[kBytes], behind[kAround];
} mine;
static unsigned char *elsewhere; /* a mapping that the driver never hears of */

static int is_all(const unsigned char *p, size_t n, unsigned char c)
{
    while (n && *p == c) p++, n--;
    return !n;
}

static void prepare(void)
{
    memset(mine.before, 0xa5, kAround), memset(mine.between, 0xa5, kAround),
        memset(mine.behind, 0xa5, kAround);
    elsewhere = mmap((void *)0x6f0000000000, 4 << 20, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (elsewhere != (void *)0x6f0000000000) exit(9);
    memset(elsewhere, 0xa5, 4 << 20);
}

static int untouched(void)
{
    return is_all(mine.before, kAround, 0xa5) && is_all(mine.between, kAround, 0xa5) &&
           is_all(mine.behind, kAround, 0xa5) && is_all(elsewhere, 4 << 20, 0xa5);
}

/* How many parameters a kernel has, and how large they are, a driver has from its server, and reads
 * as many: there is room for all that the library believes. */
static void **with_room(CUdeviceptr first, unsigned second)
{
    enum { kMost = 64 << 10 };
    static char room[2 * kMost] __attribute__((aligned(16)));
    static void *parameters[kMost];
    for (int i = 0; i < kMost; i++) parameters[i] = room + kMost;
    parameters[0] = memcpy(room, &first, sizeof first);
    memcpy(room + kMost, &second, sizeof second);
    return parameters;
}

/* Some of everything. Whether the bytes that came back are right where the calls say so. */
static int work(void)
{
    unsigned char *const from = mine.from, *const to = mine.to;
    CUdevice device;
    CUcontext context;
    CUdeviceptr memory = 0, managed = 0, large = 0;
    CUstream stream = NULL;
    CUevent event = NULL;
    CUmodule module = NULL;
    CUfunction function = NULL;
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    CUgraphNode node;
    void *pinned = NULL;
    int right = 1, version, count;
    if (CALL(cuInit, 0)) return right;
    CALL(cuDriverGetVersion, &version);
    CALL(cuDeviceGetCount, &count);
    if (CALL(cuDeviceGet, &device, 0) || CALL(cuDevicePrimaryCtxRetain, &context, device))
        return right;
    if (CALL(cuCtxSetCurrent, context)) return right;
    for (int i = 0; i < kBytes; i++) from[i] = (unsigned char)(i * 7 + i / 256), to[i] = 0;
    if (!CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING)) CALL(cuEventCreate, &event, 0);
    if (!CALL(cuMemAlloc_v2, &memory, kBytes)) {
        const int there = !CALL(cuMemcpyHtoD_v2, memory, from, kBytes);
        if (there && !CALL(cuMemcpyDtoH_v2, to, memory, kBytes)) EXPECT(!memcmp(from, to, kBytes));
        if (!CALL(cuMemHostAlloc, &pinned, kBytes, 0) && stream) {
            memset(pinned, 0, kBytes);
            if (!CALL(cuMemcpyDtoHAsync_v2, pinned, memory, kBytes, stream) &&
                !CALL(cuStreamSynchronize, stream) && there)
                EXPECT(!memcmp(from, pinned, kBytes));
        }
    }
    if (!CALL(cuModuleLoadData, &module, ptx) &&
        !CALL(cuModuleGetFunction, &function, module, "add") && memory) {
        unsigned n = 5, value = 1;
        void **parameters = with_room(memory, n);
        if (!CALL(cuMemcpyHtoD_v2, memory, &value, sizeof value) &&
            !CALL(cuLaunchKernel, function, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL) &&
            !CALL(cuCtxSynchronize) && !CALL(cuMemcpyDtoH_v2, &value, memory, sizeof value))
            EXPECT(value == 6);
    }
    if (stream) {
        const int before = host_calls;
        if (!CALL(cuLaunchHostFunc, stream, on_host, NULL) && !CALL(cuStreamSynchronize, stream))
            EXPECT(host_calls == before + 1);
        if (event && !CALL(cuEventRecord, event, stream)) CALL(cuEventSynchronize, event);
    }
    if (function) {
        int value;
        CUdeviceptr variable;
        size_t size;
        CUfunction all[4];
        CALL(cuFuncGetAttribute, &value, CU_FUNC_ATTRIBUTE_NUM_REGS, function);
        CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor, &value, function, 64, 0);
        CALL(cuModuleEnumerateFunctions, all, 4, module);
        CALL(cuModuleGetGlobal_v2, &variable, &size, module, "variable");
        CALL(cuModuleGetGlobal_v2, &variable, &size, module, "shared");
    }
    if (!CALL(cuMemAllocManaged, &managed, 8192, CU_MEM_ATTACH_GLOBAL))
        memset((void *)managed, 1, 8192);
    if (!CALL(cuMemAllocManaged, &large, 3 << 20, CU_MEM_ATTACH_GLOBAL))
        memset((void *)large, 1, 3 << 20);
    if (function && managed) {
        unsigned n = 5;
        void **parameters = with_room(managed, n);
        if (!CALL(cuLaunchKernel, function, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL) &&
            !CALL(cuCtxSynchronize))
            EXPECT(*(volatile unsigned *)managed == 0x01010106);
    }
    if (stream) {
        CUmemoryPool pool;
        cuuint64_t threshold;
        CUstreamCaptureStatus status;
        CUdeviceptr some;
        if (!CALL(cuDeviceGetDefaultMemPool, &pool, device))
            CALL(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
        if (!CALL(cuMemAllocAsync, &some, 1000, stream)) CALL(cuMemFreeAsync, some, stream);
        if (!CALL(cuStreamBeginCapture_v2, stream, CU_STREAM_CAPTURE_MODE_RELAXED)) {
            CUgraph captured = NULL;
            if (memory) CALL(cuMemsetD32Async, memory, 0, 1024, stream);
            CALL(cuStreamIsCapturing, stream, &status);
            if (!CALL(cuStreamEndCapture, stream, &captured) && captured) {
                if (!CALL(cuGraphInstantiateWithFlags, &exec, captured, 0))
                    CALL(cuGraphExecDestroy, exec);
                CALL(cuGraphDestroy, captured);
                exec = NULL;
            }
        }
    }
    if (!CALL(cuGraphCreate, &graph, 0)) {
        const int before = host_calls;
        CUDA_HOST_NODE_PARAMS host = {on_host, NULL};
        if (!CALL(cuGraphAddHostNode, &node, graph, NULL, 0, &host) &&
            !CALL(cuGraphInstantiateWithFlags, &exec, graph, 0) && stream &&
            !CALL(cuGraphLaunch, exec, stream) && !CALL(cuStreamSynchronize, stream))
            EXPECT(host_calls == before + 1);
        if (exec) CALL(cuGraphExecDestroy, exec);
        CALL(cuGraphDestroy, graph);
    }
    if (managed) CALL(cuMemFree_v2, managed);
    if (large) CALL(cuMemFree_v2, large);
    if (pinned) CALL(cuMemFreeHost, pinned);
    if (event) CALL(cuEventDestroy_v2, event);
    if (stream) CALL(cuStreamDestroy_v2, stream);
    if (module) CALL(cuModuleUnload, module);
    if (memory) CALL(cuMemFree_v2, memory);
    CALL(cuDevicePrimaryCtxRelease_v2, device);
    return right;
}

/* What a process did that calls everything: 0, or 3 where memory was written that is none of the
 * driver's. */
static int once(void)
{
    prepare();
    work();
    work();
    return untouched() ? 0 : 3;
}

static int rounds(int from, int to)
{
    int bad = 0, waits = 0;
    quiet = 1;
    for (int n = from; n < to; n++) {
        const pid_t child = fork();
        if (!child) {
            alarm(5);
            _exit(once());
        }
        int status;
        waitpid(child, &status, 0);
        /* What is never answered is waited for: that is no fault. */
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
            waits++;
        else if (WIFSIGNALED(status))
            printf("round %d: signal %d\n", n, WTERMSIG(status)), bad = 1;
        else if (WEXITSTATUS(status))
            printf("round %d: status %d\n", n, WEXITSTATUS(status)), bad = 1;
        fflush(stdout);
    }
    printf("rounds %d, %d of them without an answer\n", to - from, waits);
    return bad;
}

static void *wait_for_gpu(void *stream)
{
    CALL(cuStreamSynchronize, (CUstream)stream);
    return NULL;
}

static volatile int released, there;
static void CUDA_CB hold(void *data)
{
    (void)data;
    there = 1;
    while (!released) usleep(1000);
}

static int cancel(void)
{
    CUdevice device;
    CUcontext context;
    CUstream stream;
    pthread_t thread;
    void *result;
    if (CALL(cuInit, 0) || CALL(cuDeviceGet, &device, 0) ||
        CALL(cuDevicePrimaryCtxRetain, &context, device) || CALL(cuCtxSetCurrent, context) ||
        CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING) ||
        CALL(cuLaunchHostFunc, stream, hold, NULL))
        return 1;
    CALL(cuStreamQuery, stream);
    while (!there) usleep(1000);
    if (pthread_create(&thread, NULL, wait_for_gpu, stream)) return 9;
    usleep(100000);
    pthread_cancel(thread);
    released = 1;
    pthread_join(thread, &result);
    tell(result == PTHREAD_CANCELED ? "cancelled" : "waited", 0);
    CALL(cuCtxSynchronize);
    return 0;
}

int main(int argc, char **argv)
{
    int rc = 9;
    if (argc < 3 || !(library = dlopen(argv[1], RTLD_NOW)))
        return fprintf(stderr, "%s\n", argc < 3 ? "usage" : dlerror()), 9;
    if (!strcmp(argv[2], "malloc") && argc >= 6)
        rc = walk(atoi(argv[3]), atoi(argv[4]), atoi(argv[5]),
                  argc == 6                     ? 1
                  : strcmp(argv[6], "for_ever") ? atol(argv[6])
                                                : LONG_MAX);
    else if (!strcmp(argv[2], "once"))
        rc = once();
    else if (!strcmp(argv[2], "rounds") && argc == 5)
        rc = rounds(atoi(argv[3]), atoi(argv[4]));
    else if (!strcmp(argv[2], "cancel"))
        rc = cancel();
    else if (argc > 3)
        rc = limited(argv[2], strtoul(argv[3], NULL, 10));
    quiet = 0;
    fflush(stdout);
    tell("ended", 0);
    return rc;
}
