// SPDX-License-Identifier: Apache-2.0
// What ends with something else: nodes with their graph, functions with their module. Other threads
// make objects meanwhile, which may get the numbers that become free.
//
//   parts [ROUNDS]   says how many different handles the functions of all modules had
#include "check.h"

#include <cuda.h>

#include <set>
#include <string>
#include <thread>

#define DRIVER(call) \
    do \
        if (CUresult failed = (call)) \
            printf("line %d: %s gave %d\n", __LINE__, #call, failed), exit(1); \
    while (0)

static const char kPtx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry store(.param .u64 p, .param .u32 v) {\n"
    ".reg .u64 %a; .reg .u32 %v;\n"
    "ld.param.u64 %a, [p]; ld.param.u32 %v, [v]; st.global.u32 [%a], %v; ret; }\n";

static void graphs(int rounds)
{
    for (int i = 0; i < rounds; i++) {
        cudaGraph_t graph;
        cudaGraphNode_t nodes[8];
        CHECK(cudaGraphCreate(&graph, 0));
        for (cudaGraphNode_t &node : nodes) CHECK(cudaGraphAddEmptyNode(&node, graph, nullptr, 0));
        CHECK(cudaGraphDestroy(graph));
    }
}

static void events(int rounds)
{
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int i = 0; i < rounds; i++) {
        cudaEvent_t events[4];
        for (cudaEvent_t &e : events) CHECK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
        for (cudaEvent_t &e : events) CHECK(cudaEventRecord(e, stream));
        CHECK(cudaStreamSynchronize(stream));
        for (cudaEvent_t &e : events) CHECK(cudaEventQuery(e));
        for (cudaEvent_t &e : events) CHECK(cudaEventDestroy(e));
    }
    CHECK(cudaStreamDestroy(stream));
}

static void modules(int rounds, std::set<CUfunction> &seen)
{
    CUdeviceptr word;
    CHECK(cudaSetDevice(0));
    CHECK(cudaFree(nullptr));
    DRIVER(cuMemAlloc(&word, 4));
    for (int i = 0; i < rounds; i++) {
        CUmodule module;
        CUfunction f;
        DRIVER(cuModuleLoadData(&module, kPtx));
        DRIVER(cuModuleGetFunction(&f, module, "store"));
        seen.insert(f);
        void *arguments[] = {&word, &i};
        DRIVER(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr));
        int value = -1;
        DRIVER(cuMemcpyDtoH(&value, word, 4));
        TRUE(value == i);
        DRIVER(cuModuleUnload(module));
    }
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 200;
    CHECK(cudaFree(nullptr));
    std::set<CUfunction> seen;
    std::thread others[] = {std::thread(graphs, rounds * 10), std::thread(events, rounds * 5),
                            std::thread(events, rounds * 5)};
    modules(rounds, seen);
    for (std::thread &t : others) t.join();
    printf("%zu handles for %d functions\n", seen.size(), rounds);
}
