// SPDX-License-Identifier: Apache-2.0
// Graphs whose kernels use managed, pinned and registered memory: what the program wrote before a
// launch counts, and it sees what the graph wrote after. Ends with 0 when every value was right.
#include "check.h"

#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int n = 500;

__global__ void add(int *p, const int *what)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x) p[i] += what[i];
}

struct Seen {
    int *p, first, last;
};

static void look(void *data)
{
    auto s = static_cast<Seen *>(data);
    s->first = s->p[0], s->last = s->p[n - 1];
    s->p[1] = -1000;
}

int main()
{
    int *managed, *pinned, *device;
    std::vector<int> mine(n, 3);
    CHECK(cudaMallocManaged(&managed, n * sizeof(int)));
    CHECK(cudaMallocHost(&pinned, n * sizeof(int)));
    CHECK(cudaMalloc(&device, n * sizeof(int)));
    CHECK(cudaHostRegister(mine.data(), n * sizeof(int), cudaHostRegisterMapped));
    for (int i = 0; i < n; i++) managed[i] = i, pinned[i] = 1;

    cudaStream_t s;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    Seen seen = {managed, 0, 0};
    CHECK(cudaStreamCreate(&s));
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    add<<<1, 64, 0, s>>>(managed, pinned);
    CHECK(cudaLaunchHostFunc(s, look, &seen));
    add<<<1, 64, 0, s>>>(managed, mine.data());
    CHECK(cudaMemcpyAsync(device, managed, n * sizeof(int), cudaMemcpyDefault, s));
    add<<<1, 64, 0, s>>>(pinned, device);
    CHECK(cudaStreamEndCapture(s, &graph));
    EXPECT(managed[0] == 0 && pinned[0] == 1, "captured, not done: %d %d", managed[0], pinned[0]);
    CHECK(cudaGraphInstantiateWithFlags(&exec, graph, 0));

    for (int round = 1; round < 5; round++) {
        for (int i = 0; i < n; i++) managed[i] = i * round, pinned[i] = round, mine[i] = 10 * round;
        CHECK(cudaGraphLaunch(exec, s));
        CHECK(cudaStreamSynchronize(s));
        EXPECT(seen.first == round && seen.last == (n - 1) * round + round, "round %d: %d %d",
               round, seen.first, seen.last);
        for (int i = 0; i < n; i++) {
            const int want = (i == 1 ? -1000 : i * round + round) + 10 * round;
            EXPECT(managed[i] == want && pinned[i] == round + want, "round %d, %d: %d %d", round, i,
                   managed[i], pinned[i]);
        }
    }
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaHostUnregister(mine.data()));
    CHECK(cudaFreeHost(pinned));
    CHECK(cudaFree(managed));
    CHECK(cudaFree(device));
    puts("graphs and shared memory are right");
    return 0;
}
