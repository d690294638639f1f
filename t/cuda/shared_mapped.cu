// SPDX-License-Identifier: Apache-2.0
// Pinned and registered host memory that kernels read and write. Ends with 0 when every byte was
// right.
#include "check.h"
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <thread>
#include <vector>

__global__ void add(int *p, int n, int what)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x) p[i] += what;
}

__global__ void copy(int *to, const int *from, int n)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x) to[i] = from[i];
}

struct Pair {
    long count;
    int *values;
};
__global__ void add_pair(Pair pair, int what)
{
    for (long i = threadIdx.x; i < pair.count; i += blockDim.x) pair.values[i] += what;
}

constexpr int n = 3000;

// A pointer of the program, as it is, is a kernel's argument: cudaMallocHost, unified addressing.
static void plain_pinned()
{
    int *p, *q;
    CHECK(cudaMallocHost(&p, n * sizeof(int)));
    CHECK(cudaMallocHost(&q, n * sizeof(int)));
    for (int i = 0; i < n; i++) p[i] = i, q[i] = -1;
    add<<<1, 64>>>(p, n, 5);
    copy<<<1, 64>>>(q, p, n);
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < n; i++) EXPECT(p[i] == i + 5 && q[i] == i + 5, "%d: %d %d", i, p[i], q[i]);
    for (int round = 0; round < 3; round++) {
        p[7] = 1000 * round;
        add_pair<<<1, 64>>>({n, p}, 1);  // inside a struct
        CHECK(cudaStreamSynchronize(0));
        EXPECT(p[7] == 1000 * round + 1 && p[8] == 13 + round + 1, "%d %d", p[7], p[8]);
    }
    CHECK(cudaFreeHost(p));
    CHECK(cudaFreeHost(q));
}

// Copies of pinned memory that kernels use, too, and of some that they do not: in stream order.
static void copies()
{
    int *p, *device, *only_copied;
    cudaStream_t s;
    CHECK(cudaStreamCreate(&s));
    CHECK(cudaMallocHost(&p, n * sizeof(int)));
    CHECK(cudaMallocHost(&only_copied, n * sizeof(int)));
    CHECK(cudaMalloc(&device, n * sizeof(int)));
    for (int i = 0; i < n; i++) p[i] = 0, only_copied[i] = i;
    CHECK(cudaMemcpyAsync(device, only_copied, n * sizeof(int), cudaMemcpyHostToDevice, s));
    CHECK(cudaMemcpyAsync(p, device, n * sizeof(int), cudaMemcpyDeviceToHost,
                          s));  // on its way when the kernel comes
    add<<<1, 64, 0, s>>>(p, n, 1);
    CHECK(cudaMemcpyAsync(device, p, n * sizeof(int), cudaMemcpyHostToDevice, s));
    CHECK(cudaMemcpyAsync(only_copied, device, n * sizeof(int), cudaMemcpyDeviceToHost, s));
    CHECK(cudaStreamSynchronize(s));
    for (int i = 0; i < n; i++)
        EXPECT(p[i] == i + 1 && only_copied[i] == i + 1, "%d: %d %d", i, p[i], only_copied[i]);
    add<<<1, 64, 0, s>>>(device, n, 100);
    CHECK(cudaMemcpyAsync(p, device, n * sizeof(int), cudaMemcpyDefault, s));
    add<<<1, 64, 0, s>>>(p, n, 1000);
    CHECK(cudaMemcpy(only_copied, p, n * sizeof(int), cudaMemcpyDefault));
    CHECK(cudaStreamSynchronize(s));
    for (int i = 0; i < n; i++) EXPECT(p[i] == i + 1101, "%d: %d", i, p[i]);
    CHECK(cudaFree(device));
    CHECK(cudaFreeHost(p));
    CHECK(cudaFreeHost(only_copied));
    CHECK(cudaStreamDestroy(s));
}

// Allocated for kernels, with a pointer asked for.
static void mapped()
{
    int *p, *device;
    CHECK(cudaHostAlloc(&p, n * sizeof(int), cudaHostAllocMapped | cudaHostAllocPortable));
    CHECK(cudaHostGetDevicePointer(&device, p, 0));
    unsigned flags = 0;
    CHECK(cudaHostGetFlags(&flags, p));
    EXPECT(flags & cudaHostAllocMapped, "%#x", flags);
    cudaPointerAttributes a;
    CHECK(cudaPointerGetAttributes(&a, p));
    EXPECT(a.type == cudaMemoryTypeHost && a.hostPointer == p && a.devicePointer == device, "%d %p",
           a.type, a.devicePointer);
    // While a kernel works on one half, the program writes the other.
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < n; i++) p[i] = i;
        add<<<1, 64>>>(device, n / 2, round);
        for (int i = n / 2; i < n; i++) p[i] = -i;
        add<<<1, 64>>>(device + n / 2, n / 2, round);
        CHECK(cudaDeviceSynchronize());
        for (int i = 0; i < n; i++) EXPECT(p[i] == (i < n / 2 ? i : -i) + round, "%d: %d", i, p[i]);
    }
    CHECK(cudaMemset(device, 0, n * sizeof(int)));
    CHECK(cudaDeviceSynchronize());
    EXPECT(!p[0] && !p[n - 1], "%d", p[0]);
    CHECK(cudaFreeHost(p));
}

// The program's own memory, registered; it begins and ends inside pages.
static void registered()
{
    std::vector<int> mine(n + 64);
    int *p = mine.data() + 3, *device, *plain;
    CHECK(cudaHostRegister(p, n * sizeof(int), cudaHostRegisterMapped));
    CHECK(cudaHostGetDevicePointer(&device, p, 0));
    CHECK(cudaMalloc(&plain, n * sizeof(int)));
    for (size_t i = 0; i < mine.size(); i++) mine[i] = static_cast<int>(i);
    for (int round = 1; round < 4; round++) {
        add<<<1, 64>>>(device, n, 1);
        CHECK(cudaDeviceSynchronize());
        for (int i = 0; i < n; i++) EXPECT(p[i] == i + 3 + round, "%d: %d", i, p[i]);
        EXPECT(mine[2] == 2 && mine[n + 3] == n + 3, "beside it: %d %d", mine[2], mine[n + 3]);
        mine[2]++, mine[2]--;
    }
    add<<<1, 64>>>(p, n, 1);  // as it is, where the address is the same or can be told
    CHECK(cudaMemcpyAsync(plain, p, n * sizeof(int), cudaMemcpyHostToDevice, 0));
    add<<<1, 64>>>(plain, n, 1);
    CHECK(cudaMemcpyAsync(p, plain, n * sizeof(int), cudaMemcpyDeviceToHost, 0));
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < n; i++) EXPECT(p[i] == i + 8, "%d: %d", i, p[i]);
    CHECK(cudaHostUnregister(p));
    EXPECT(cudaHostUnregister(p) != cudaSuccess, "twice");
    cudaGetLastError();
    CHECK(cudaFree(plain));
}

// Memory that goes away though it is registered: the program's mistake, and no reason to die.
static void gone()
{
    auto p = static_cast<int *>(
        mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    int *device, *other;
    CHECK(cudaHostRegister(p, 8192, cudaHostRegisterMapped));
    CHECK(cudaHostGetDevicePointer(&device, p, 0));
    add<<<1, 64>>>(device, 100, 1);
    CHECK(cudaDeviceSynchronize());
    EXPECT(p[5] == 1, "%d", p[5]);
    CHECK(cudaMallocHost(&other, sizeof(int)));
    munmap(p, 8192);
    *other = 3;
    add<<<1, 1>>>(other, 1, 1);
    CHECK(cudaDeviceSynchronize());
    EXPECT(*other == 4, "%d", *other);
    CHECK(cudaHostUnregister(p));
    CHECK(cudaFreeHost(other));
}

int main()
{
    for (int round = 0; round < 2; round++) plain_pinned(), copies(), mapped(), registered();
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++)
        threads.emplace_back([] { plain_pinned(), copies(), registered(); });
    for (auto &t : threads) t.join();
    gone();
    puts("mapped memory is right");
    return 0;
}
