// SPDX-License-Identifier: Apache-2.0
/* Frees memory when the program has a host function in a graph, ends the context, and gets memory
 * in the next one: the same addresses, most likely. It must keep that memory.
 *
 * freed_late ROUNDS    prints "freed_late: ok"
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kBytes = 1 << 20, kFrees = 4 };

#define CHECK(call) \
    do { \
        const CUresult result_ = (call); \
        if (result_) { \
            printf("round %d: %s: %d\n", round, #call, (int)result_); \
            exit(1); \
        } \
    } while (0)

static void CUDA_CB nothing(void *data) { (void)data; }

/* From now on the server hands what may wait for a host function to other threads. */
static void have_host_function(int round)
{
    CUgraph graph;
    CUgraphNode node;
    const CUDA_HOST_NODE_PARAMS host = {nothing, NULL};
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddHostNode(&node, graph, NULL, 0, &host));
    CHECK(cuGraphDestroy(graph));
}

int main(int argc, char **argv)
{
    static unsigned char sent[kBytes], got[kBytes];
    int round = 0;
    CUdevice device;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    for (const int rounds = argc > 1 ? atoi(argv[1]) : 1; round < rounds; round++) {
        CUcontext context;
        CUdeviceptr memory[kFrees];
        CHECK(cuDevicePrimaryCtxRetain(&context, device));
        CHECK(cuCtxSetCurrent(context));
        if (!round) have_host_function(round);
        for (int i = 0; i < kFrees; i++) CHECK(cuMemAlloc(&memory[i], kBytes));
        memset(sent, round + 1, sizeof sent);
        for (int i = 0; i < kFrees; i++) {
            CHECK(cuMemcpyHtoD(memory[i], sent, sizeof sent));
            CHECK(cuMemcpyDtoH(got, memory[i], sizeof got));
            if (memcmp(sent, got, sizeof got)) return printf("round %d: other bytes\n", round), 1;
        }
        for (int i = 0; i < kFrees; i++) CHECK(cuMemFree(memory[i]));
        CHECK(cuDevicePrimaryCtxRelease(device));
    }
    printf("freed_late: ok\n");
    return 0;
}
