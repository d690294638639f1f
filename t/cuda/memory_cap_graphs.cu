// SPDX-License-Identifier: Apache-2.0
// How much memory a program gets through graphs, in pieces of 4 MiB, until there is no more.
//
//   memory_cap_graphs captured|nodes|any|one    prints "got G", bytes that a kernel wrote to and
//   that all exist at once:
//                                                a graph for each piece, with a captured
//                                                cudaMallocAsync, an allocation node, or a node of
//                                                the call that makes any kind; or one graph with
//                                                all of them
#include <cstdio>
#include <cstring>
#include <vector>

#include <cuda_runtime.h>

constexpr size_t kPiece = 4 << 20;

__global__ void fill(unsigned char *bytes)
{
    for (size_t i = threadIdx.x * 4096; i < kPiece; i += blockDim.x * 4096) bytes[i] = 1;
}

static cudaError_t capture(cudaStream_t stream, cudaGraph_t *graph, void **p)
{
    cudaError_t status;
    if ((status = cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed))) return status;
    status = cudaMallocAsync(p, kPiece, stream);
    cudaError_t ended = cudaStreamEndCapture(stream, graph);
    return status ? status : ended;
}

static cudaError_t add(cudaGraph_t graph, void **p, bool any)
{
    cudaGraphNode_t node;
    cudaGraphNodeParams params = {};
    params.type = cudaGraphNodeTypeMemAlloc;
    params.alloc.poolProps.allocType = cudaMemAllocationTypePinned;
    params.alloc.poolProps.location.type = cudaMemLocationTypeDevice;
    params.alloc.bytesize = kPiece;
    cudaMemAllocNodeParams alone = {};
    alone.poolProps = params.alloc.poolProps;
    alone.bytesize = kPiece;
    cudaError_t status = any ? cudaGraphAddNode(&node, graph, nullptr,
#if CUDART_VERSION >= 13000
                                                nullptr,
#endif
                                                0, &params)
                             : cudaGraphAddMemAllocNode(&node, graph, nullptr, 0, &alone);
    *p = any ? params.alloc.dptr : alone.dptr;
    return status;
}

static cudaError_t launch(cudaGraph_t graph, cudaStream_t stream)
{
    cudaGraphExec_t exec;
    cudaError_t status = cudaGraphInstantiate(&exec, graph, 0);
    if (!status) status = cudaGraphLaunch(exec, stream);
    return status ? status : cudaStreamSynchronize(stream);
}

int main(int argc, char **argv)
{
    if (argc < 2) return fputs("usage: memory_cap_graphs captured|nodes|any|one\n", stderr), 2;
    cudaStream_t stream;
    cudaGraph_t graph, all;
    cudaError_t status = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    std::vector<void *> pieces;
    if (status || cudaGraphCreate(&all, 0)) return puts(cudaGetErrorName(status)), 3;
    for (void *p = nullptr; pieces.size() < 1000; pieces.push_back(p)) {
        if (!strcmp(argv[1], "captured")) {
            status = capture(stream, &graph, &p);
        } else if (!strcmp(argv[1], "one")) {
            status = add(all, &p, false);
            graph = nullptr;
        } else {
            cudaGraphCreate(&graph, 0);
            status = add(graph, &p, !strcmp(argv[1], "any"));
        }
        if (status || (graph && (status = launch(graph, stream)))) break;
    }
    if (status != cudaErrorMemoryAllocation) return puts(cudaGetErrorName(status)), 3;
    (void)cudaGetLastError();
    if (!strcmp(argv[1], "one") && (status = launch(all, stream)))
        return puts(cudaGetErrorName(status)), 3;
    size_t got = 0;
    for (void *p : pieces) {
        fill<<<1, 32, 0, stream>>>(static_cast<unsigned char *>(p));
        got += kPiece;
    }
    if ((status = cudaStreamSynchronize(stream))) return puts(cudaGetErrorName(status)), 3;
    printf("got %zu\n", got);
    return 0;
}
