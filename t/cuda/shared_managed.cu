// SPDX-License-Identifier: Apache-2.0
// Managed memory: program and kernels use it in turn, by the same pointers. Ends with 0 when every
// byte was right.
//   shared_managed [THREADS]   each check in so many threads at the same time, too
//   shared_managed much        takes as much as it can get and says how much
#include "check.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

__global__ void add(int *p, size_t n, int what)
{
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        p[i] += what;
}

// Writes the odd bytes.
__global__ void odd(unsigned char *p, size_t n, unsigned char what)
{
    for (size_t i = threadIdx.x; i < n; i += blockDim.x)
        if (i % 2) p[i] = what;
}

struct List {
    List *next;
    int *values;
    int count, sum;
};

__global__ void sum_list(List *l)
{
    for (; l; l = l->next)
        for (int i = 0; i < l->count; i++) l->sum += l->values[i]++;
}

template <class T> static T *managed(size_t n)
{
    T *p;
    CHECK(cudaMallocManaged(&p, n * sizeof *p));
    return p;
}

// Even bytes are the program's, odd ones the kernel's, in every round.
static void neighbours(cudaStream_t s)
{
    constexpr size_t n = 10001;
    auto p = managed<unsigned char>(n);
    memset(p, 0, n);
    for (int round = 1; round < 6; round++) {
        for (size_t i = 0; i < n; i += 2) p[i] = static_cast<unsigned char>(round);
        odd<<<1, 64, 0, s>>>(p, n, static_cast<unsigned char>(100 + round));
        CHECK(cudaStreamSynchronize(s));
        for (size_t i = 0; i < n; i++)
            EXPECT(p[i] == (i % 2 ? 100 + round : round), "round %d, byte %zu is %d", round, i,
                   p[i]);
    }
    CHECK(cudaFree(p));
}

static void large(cudaStream_t s)
{
    constexpr size_t n = (24 << 20) / 4 + 5;
    auto p = managed<int>(n);
    for (size_t i = 0; i < n; i++) p[i] = static_cast<int>(i);
    add<<<32, 128, 0, s>>>(p, n, 7);
    CHECK(cudaStreamSynchronize(s));
    for (size_t i = 0; i < n; i++) EXPECT(p[i] == static_cast<int>(i) + 7, "%zu is %d", i, p[i]);
    // One int in each page.
    for (size_t i = 0; i < n; i += 1024) p[i] = -1;
    add<<<32, 128, 0, s>>>(p, n, 1);
    CHECK(cudaStreamSynchronize(s));
    for (size_t i = 0; i < n; i++)
        EXPECT(p[i] == (i % 1024 ? static_cast<int>(i) + 8 : 0), "%zu is %d", i, p[i]);
    CHECK(cudaFree(p));
}

static void linked(cudaStream_t s)
{
    constexpr int count = 60;
    List *head = nullptr;
    for (int i = 0; i < count; i++) {
        auto l = managed<List>(1);
        *l = {head, managed<int>(10), 10, 0};
        for (int k = 0; k < 10; k++) l->values[k] = i * k;
        head = l;
    }
    for (int round = 0; round < 2; round++) {
        sum_list<<<1, 1, 0, s>>>(head);
        CHECK(cudaStreamSynchronize(s));
    }
    for (int i = count - 1; i >= 0; i--) {
        EXPECT(head->sum == 2 * i * 45 + 10, "list %d: sum %d", i, head->sum);
        for (int k = 0; k < 10; k++) EXPECT(head->values[k] == i * k + 2, "list %d, %d", i, k);
        List *gone = head;
        head = head->next;
        CHECK(cudaFree(gone->values));
        CHECK(cudaFree(gone));
    }
}

// Copies and sets of managed memory, by every kind that CUDA has, and beside kernels without
// waiting.
static void copies(cudaStream_t s)
{
    constexpr size_t n = 5000;
    auto p = managed<int>(n), q = managed<int>(n);
    int *device;
    std::vector<int> mine(n, 5), back(n);
    CHECK(cudaMalloc(&device, n * sizeof(int)));
    for (size_t i = 0; i < n; i++) p[i] = 1;
    CHECK(cudaMemcpyAsync(p, mine.data(), n / 2 * sizeof(int), cudaMemcpyHostToDevice, s));
    add<<<4, 64, 0, s>>>(p, n, 10);
    CHECK(cudaMemcpyAsync(device, p, n * sizeof(int), cudaMemcpyHostToDevice,
                          s));  // what the kernel wrote
    add<<<4, 64, 0, s>>>(device, n, 100);
    CHECK(cudaMemcpyAsync(q, device, n * sizeof(int), cudaMemcpyDeviceToHost, s));
    CHECK(cudaStreamSynchronize(s));
    for (size_t i = 0; i < n; i++) {
        const int want = i < n / 2 ? 15 : 11;
        EXPECT(p[i] == want && q[i] == want + 100, "%zu: %d %d", i, p[i], q[i]);
    }
    for (size_t i = 0; i < n; i++) q[i] = static_cast<int>(i);
    CHECK(cudaMemcpy(p, q, n * sizeof(int), cudaMemcpyDefault));
    q[3] = -1;  // after a synchronous copy: none of it
    CHECK(cudaMemcpy(back.data(), p, n * sizeof(int), cudaMemcpyDefault));
    for (size_t i = 0; i < n; i++) EXPECT(back[i] == static_cast<int>(i), "%zu: %d", i, back[i]);
    EXPECT(q[3] == -1 && p[3] == 3, "%d %d", q[3], p[3]);
    p[0] = 1;
    CHECK(cudaMemsetAsync(p + 1, 0xff, (n - 1) * sizeof(int), s));
    CHECK(cudaStreamSynchronize(s));
    EXPECT(p[0] == 1 && p[1] == -1 && p[n - 1] == -1, "%d %d", p[0], p[1]);
    p[5] = 77;
    CHECK(cudaMemcpy2D(back.data(), 4 * sizeof(int), p, 40 * sizeof(int), 4 * sizeof(int), 10,
                       cudaMemcpyDeviceToHost));
    EXPECT(back[0] == 1 && back[1] == -1 && back[4] == -1, "%d", back[1]);
    // A value that was there before, over a change that no kernel has seen.
    CHECK(cudaMemcpy(p + 5, &mine[0], sizeof(int), cudaMemcpyHostToDevice));
    EXPECT(p[5] == 5, "%d", p[5]);
    CHECK(cudaFree(device));
    CHECK(cudaFree(p));
    CHECK(cudaFree(q));
}

// System calls read and write managed memory.
static void files(cudaStream_t s)
{
    constexpr size_t n = 100000;
    auto p = managed<int>(n);
    char name[] = "/tmp/rgpu-shared.XXXXXX";
    const int fd = mkstemp(name);
    EXPECT(fd >= 0, "%s", name);
    unlink(name);
    for (size_t i = 0; i < n; i++) p[i] = static_cast<int>(3 * i);
    add<<<8, 64, 0, s>>>(p, n, 1);
    CHECK(cudaStreamSynchronize(s));
    EXPECT(write(fd, p, n * sizeof(int)) == n * sizeof(int), "%m");
    memset(p, 0, n * sizeof(int));
    EXPECT(lseek(fd, 0, SEEK_SET) == 0, "%m");
    EXPECT(read(fd, p, n * sizeof(int)) == n * sizeof(int), "%m");
    add<<<8, 64, 0, s>>>(p, n, 1);
    CHECK(cudaStreamSynchronize(s));
    for (size_t i = 0; i < n; i++) EXPECT(p[i] == static_cast<int>(3 * i) + 2, "%zu: %d", i, p[i]);
    close(fd);
    CHECK(cudaFree(p));
}

struct Host {
    int *p;
    int seen;
};

static void in_host_function(void *data)
{
    auto h = static_cast<Host *>(data);
    h->seen = h->p[3];
    h->p[4] = 1000;
}

// A host function sees what kernels before it wrote; kernels behind it see what it wrote.
static void host_functions(cudaStream_t s)
{
    auto p = managed<int>(16);
    Host h = {p, 0};
    memset(p, 0, 16 * sizeof(int));
    for (int round = 1; round < 5; round++) {
        add<<<1, 16, 0, s>>>(p, 16, 1);
        CHECK(cudaLaunchHostFunc(s, in_host_function, &h));
        add<<<1, 16, 0, s>>>(p, 16, 1);
        CHECK(cudaStreamSynchronize(s));
        EXPECT(h.seen == 2 * round - 1 && p[4] == 1001 && p[5] == 2 * round, "round %d: %d %d %d",
               round, h.seen, p[4], p[5]);
    }
    CHECK(cudaFree(p));
}

// Work is waited for by an event, and by asking again and again.
static void events(cudaStream_t s)
{
    auto p = managed<int>(100);
    memset(p, 0, 100 * sizeof(int));
    cudaEvent_t e;
    CHECK(cudaEventCreate(&e));
    for (int round = 1; round < 4; round++) {
        add<<<1, 32, 0, s>>>(p, 100, 1);
        CHECK(cudaEventRecord(e, s));
        CHECK(cudaEventSynchronize(e));
        EXPECT(p[99] == 3 * round - 2, "%d", p[99]);
        add<<<1, 32, 0, s>>>(p, 100, 1);
        CHECK(cudaEventRecord(e, s));
        while (cudaEventQuery(e) == cudaErrorNotReady) {}
        EXPECT(p[99] == 3 * round - 1, "%d", p[99]);
        p[98] = p[99];
        add<<<1, 32, 0, s>>>(p, 100, 1);
        while (cudaStreamQuery(s) == cudaErrorNotReady) {}
        EXPECT(p[99] == 3 * round && p[98] == p[99], "%d", p[99]);
    }
    CHECK(cudaEventDestroy(e));
    CHECK(cudaFree(p));
}

static void everything()
{
    cudaStream_t s;
    CHECK(cudaStreamCreate(&s));
    neighbours(s), linked(s), copies(s), files(s), host_functions(s), events(s);
    neighbours(nullptr), events(cudaStreamPerThread);
    CHECK(cudaStreamDestroy(s));
}

// What is asked about it.
static void attributes()
{
    auto p = managed<int>(1000);
    cudaPointerAttributes a;
    CHECK(cudaPointerGetAttributes(&a, p + 7));
    EXPECT(a.type == cudaMemoryTypeManaged, "type %d", a.type);
    EXPECT(a.devicePointer == p + 7 && a.hostPointer == p + 7, "%p %p", a.devicePointer,
           a.hostPointer);
    cudaMemLocation here = {cudaMemLocationTypeDevice, 0}, cpu = {cudaMemLocationTypeHost, 0};
    CHECK(cudaMemAdvise(p, 4000, cudaMemAdviseSetReadMostly, here));
    CHECK(cudaMemAdvise(p, 4000, cudaMemAdviseSetPreferredLocation, here));
    CHECK(cudaMemPrefetchAsync(p, 4000, here, 0, nullptr));
    int value = -7;
    cudaError_t known =
        cudaMemRangeGetAttribute(&value, sizeof value, cudaMemRangeAttributeReadMostly, p, 4000);
    if (known == cudaErrorNotSupported) {
        puts("advice is not remembered");
        cudaGetLastError();
        CHECK(cudaFree(p));
        return;
    }
    CHECK(known);
    EXPECT(value == 1, "%d", value);
    CHECK(cudaMemRangeGetAttribute(&value, sizeof value, cudaMemRangeAttributeLastPrefetchLocation,
                                   p, 4000));
    EXPECT(value == 0, "%d", value);
    CHECK(cudaMemAdvise(p, 4000, cudaMemAdviseUnsetReadMostly, here));
    CHECK(cudaMemRangeGetAttribute(&value, sizeof value, cudaMemRangeAttributeReadMostly, p, 4000));
    EXPECT(value == 0, "%d", value);
    CHECK(cudaMemPrefetchAsync(p, 4000, cpu, 0, nullptr));
    CHECK(cudaStreamAttachMemAsync(cudaStreamPerThread, p, 0, cudaMemAttachSingle));
    CHECK(cudaStreamAttachMemAsync(cudaStreamPerThread, p, 0, cudaMemAttachGlobal));
    CHECK(cudaFree(p));
    if (by_rgpu()) EXPECT(cudaFree(p + 1) != cudaSuccess, "half a block is freed");
    cudaGetLastError();
}

// Memory that is freed is free, and new memory works.
static void freed()
{
    size_t before, after, total;
    CHECK(cudaMemGetInfo(&before, &total));
    for (int round = 0; round < 5; round++) {
        auto p = managed<int>(6 << 20), q = managed<int>(10);
        add<<<16, 128>>>(p, 6 << 20, round);
        add<<<1, 32>>>(q, 10, round);
        CHECK(cudaDeviceSynchronize());
        EXPECT(p[4 << 20] == round, "%d", p[4 << 20]);
        CHECK(cudaFree(p));
        CHECK(cudaFree(q));
    }
    CHECK(cudaMemGetInfo(&after, &total));
    // A driver may give back more: what it held for itself.
    EXPECT(after >= before, "%zu bytes are not free", before - after);
    int *p;
    // NVIDIA's driver has more than the GPU's: the host's.
    const cudaError_t twice = cudaMallocManaged(&p, total * 2);
    EXPECT(by_rgpu() ? twice == cudaErrorMemoryAllocation
                     : !twice || twice == cudaErrorMemoryAllocation,
           "more than there is");
    if (!twice) CHECK(cudaFree(p));
    cudaGetLastError();
}

static void much()
{
    constexpr size_t unit = 4 << 20;
    size_t got = 0;
    int *p;
    while (got < 1000 && cudaMallocManaged(&p, unit) == cudaSuccess) {
        *p = 1;
        add<<<1, 1>>>(p, 1, 1);
        CHECK(cudaDeviceSynchronize());
        EXPECT(*p == 2, "%d", *p);
        got++;
    }
    EXPECT(cudaGetLastError() == cudaErrorMemoryAllocation, "another error");
    printf("%zu MiB of managed memory\n", got * unit >> 20);
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "much")) {
        much();
        return 0;
    }
    freed();
    attributes();
    large(nullptr);
    everything();
    std::vector<std::thread> threads;
    for (int i = 0; i < (argc > 1 ? atoi(argv[1]) : 0); i++) threads.emplace_back(everything);
    for (auto &t : threads) t.join();
    puts("managed memory is right");
    return 0;
}
