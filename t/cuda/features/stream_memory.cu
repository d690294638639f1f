// SPDX-License-Identifier: Apache-2.0
// Stream-ordered memory in any order: threads with streams of their own and pools of everyone's
// allocate, fill, hand on behind an event, check and free. Kernels check that nobody else wrote to
// what they have. With "time" as argument it prints what an allocation and its free take, in
// microseconds, by their size. With "all MIB" it takes all memory there is, and so much at least.
// With "rest" it frees what it had, waits for nothing, and rests until its input ends.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>
#include <thread>
#include <vector>

#include "check.h"

__global__ void fill(int *p, int n, int v)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x) p[i] = v + i;
}
__global__ void look(const int *p, int n, int v, int *wrong)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        if (p[i] != v + i) atomicAdd(wrong, 1);
}

constexpr int kThreads = 3, kStreams = 3, kRounds = 400;

struct Piece {
    int *p;
    int n, value, stream;
};

static void walk(int seed, cudaMemPool_t shared, int *wrong)
{
    std::mt19937 random(seed);
    cudaStream_t streams[kStreams];
    cudaEvent_t event;
    for (auto &s : streams) CHECK(cudaStreamCreateWithFlags(&s, random() % 2));
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    std::vector<Piece> alive;
    int next = seed << 20;
    for (int i = 0; i < kRounds; i++) {
        const int s = random() % kStreams;
        const unsigned what = random() % 100;
        if (what < 50) {
            const int n = 1 + random() % (1 << random() % 19);
            Piece piece{nullptr, n, next += 4096, s};
            if (random() % 2)
                CHECK(cudaMallocAsync(&piece.p, n * sizeof(int), streams[s]));
            else
                CHECK(cudaMallocFromPoolAsync(&piece.p, n * sizeof(int), shared, streams[s]));
            fill<<<1, 64, 0, streams[s]>>>(piece.p, n, piece.value);
            alive.push_back(piece);
        } else if (what < 90 && !alive.empty()) {
            const size_t which = random() % alive.size();
            const Piece piece = alive[which];
            alive[which] = alive.back();
            alive.pop_back();
            if (s != piece.stream) {
                CHECK(cudaEventRecord(event, streams[piece.stream]));
                CHECK(cudaStreamWaitEvent(streams[s], event));
            }
            look<<<1, 64, 0, streams[s]>>>(piece.p, piece.n, piece.value, wrong);
            CHECK(cudaFreeAsync(piece.p, streams[s]));
        } else if (what < 95) {
            CHECK(cudaStreamSynchronize(streams[s]));
        } else if (what < 97) {
            CHECK(cudaEventRecord(event, streams[s]));
            CHECK(cudaEventSynchronize(event));
        } else if (what < 98) {
            CHECK(cudaStreamDestroy(streams[s]));
            CHECK(cudaDeviceSynchronize());
            CHECK(cudaStreamCreateWithFlags(&streams[s], random() % 2));
        }
    }
    for (const Piece &piece : alive) {
        look<<<1, 64, 0, streams[piece.stream]>>>(piece.p, piece.n, piece.value, wrong);
        CHECK(cudaFreeAsync(piece.p, streams[piece.stream]));
    }
    for (auto &s : streams) CHECK(cudaStreamDestroy(s));
}

static cuuint64_t count(cudaMemPool_t pool, cudaMemPoolAttr which)
{
    cuuint64_t value = 0;
    CHECK(cudaMemPoolGetAttribute(pool, which, &value));
    return value;
}

static double pair(size_t bytes, int times, cudaStream_t s)
{
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    for (int i = 0; i < times; i++) {
        void *p = nullptr;
        CHECK(cudaMallocAsync(&p, bytes, s));
        CHECK(cudaFreeAsync(p, s));
    }
    CHECK(cudaStreamSynchronize(s));
    return std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / times;
}

// Again and again, as what is freed can be had in smaller pieces and larger ones, and in another
// way as soon as the stream has come past it. Whoever rests gives back what it does not use.
static void take_all(size_t least)
{
    size_t free = 0, total = 0;
    for (int i = 0; i < 100 && free < least; i++) {
        usleep(50'000);
        CHECK(cudaMemGetInfo(&free, &total));
    }
    cudaStream_t s;
    CHECK(cudaStreamCreate(&s));
    for (const size_t bytes : {size_t{2} << 20, size_t{1} << 20, size_t{40} << 20}) {
        std::vector<void *> all;
        void *p;
        while (!cudaMallocAsync(&p, bytes, s)) all.push_back(p);
        TRUE(cudaGetLastError() == cudaErrorMemoryAllocation);
        EXPECT(all.size() * bytes + bytes > least, "%zu", all.size() * bytes);
        for (void *one : all) CHECK(cudaFreeAsync(one, s));
        CHECK(cudaStreamSynchronize(s));
        all.clear();
        while (!cudaMalloc(&p, bytes)) all.push_back(p);
        TRUE(cudaGetLastError() == cudaErrorMemoryAllocation);
        EXPECT(all.size() * bytes + bytes > least, "%zu", all.size() * bytes);
        for (void *one : all) CHECK(cudaFree(one));
    }
}

static void rest()
{
    cudaStream_t s;
    CHECK(cudaStreamCreate(&s));
    std::vector<void *> all(100);
    for (void *&p : all) {
        CHECK(cudaMallocAsync(&p, 1 << 20, s));
        CHECK(cudaMemsetAsync(p, 1, 1 << 20, s));
    }
    for (void *p : all) CHECK(cudaFreeAsync(p, s));
    printf("rests\n");
    fflush(stdout);
    for (char c; read(0, &c, 1) == 1;) {}
}

// What the calls say of such memory. The pool is destroyed.
static void say(cudaMemPool_t mine)
{
    // What is freed in one stream another one does not get while the first is busy.
    cudaStream_t a, b;
    CHECK(cudaStreamCreate(&a));
    CHECK(cudaStreamCreate(&b));
    void *p, *q, *r;
    int off = 0;
    CHECK(cudaMemPoolSetAttribute(mine, cudaMemPoolReuseAllowOpportunistic, &off));
    CHECK(cudaMemPoolSetAttribute(mine, cudaMemPoolReuseAllowInternalDependencies, &off));
    CHECK(cudaMallocFromPoolAsync(&p, 3 << 20, mine, a));
    CHECK(cudaFreeAsync(p, a));
    CHECK(cudaMallocFromPoolAsync(&q, 3 << 20, mine, b));
    CHECK(cudaMallocFromPoolAsync(&r, 3 << 20, mine, a));
    TRUE(q != r);
    CHECK(cudaFreeAsync(q, b));
    if (by_rgpu()) FAILS(cudaFreeAsync((char *)r + 512, a), cudaErrorInvalidValue);
    // A pool that is destroyed stays as long as its memory is used.
    CHECK(cudaMemPoolDestroy(mine));
    CHECK(cudaMemsetAsync(r, 1, 3 << 20, a));
    CHECK(cudaFreeAsync(r, a));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMallocAsync(&p, 100, a));
    CHECK(cudaMallocAsync(&q, 100, a));
    CHECK(cudaMemsetAsync(p, 0, 100, a));
    cudaPointerAttributes attributes;
    CHECK(cudaPointerGetAttributes(&attributes, p));
    TRUE(attributes.type == cudaMemoryTypeDevice && attributes.device == 0);
    CUdeviceptr base;
    size_t bytes;
    DRIVER(cuMemGetAddressRange(&base, &bytes, (CUdeviceptr)q + 50));
    if (by_rgpu()) TRUE(base == (CUdeviceptr)q && bytes == 100);
    cudaIpcMemHandle_t handle;
    TRUE(cudaIpcGetMemHandle(&handle, p) != cudaSuccess);
    (void)cudaGetLastError();
    CHECK(cudaFreeAsync(p, a));
    CHECK(cudaFree(q));
}

int main(int argc, char **argv)
{
    cudaMemPool_t pool, mine;
    CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
    if (argc == 2 && !strcmp(argv[1], "time")) {
        cudaStream_t s;
        CHECK(cudaStreamCreate(&s));
        cuuint64_t all = UINT64_MAX;
        CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all));
        for (const size_t bytes : {4 << 10, 256 << 10, 1 << 20, 4 << 20, 64 << 20}) {
            pair(bytes, 1000, s);
            double best = 1e9;
            for (int i = 0; i < 20; i++) best = std::min(best, pair(bytes, 500, s));
            printf("%zu %.3f\n", bytes, best);
        }
        return 0;
    }
    if (argc == 2) {
        rest();
        return 0;
    }
    if (argc == 3) {
        take_all(size_t(atoi(argv[2])) << 20);
        return right();
    }
    int *wrong, got = 1;
    CHECK(cudaMalloc(&wrong, sizeof(int)));
    CHECK(cudaMemset(wrong, 0, sizeof(int)));
    cudaMemPoolProps props = {};
    props.allocType = cudaMemAllocationTypePinned;
    props.location = {cudaMemLocationTypeDevice, 0};
    CHECK(cudaMemPoolCreate(&mine, &props));
    cuuint64_t keep = 8 << 20;
    CHECK(cudaMemPoolSetAttribute(mine, cudaMemPoolAttrReleaseThreshold, &keep));
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; t++) threads.emplace_back(walk, t + 1, mine, wrong);
    for (auto &t : threads) t.join();
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(&got, wrong, sizeof got, cudaMemcpyDeviceToHost));
    EXPECT(got == 0, "%d", got);
    for (cudaMemPool_t p : {pool, mine}) {
        TRUE(!count(p, cudaMemPoolAttrUsedMemCurrent));
        TRUE(count(p, cudaMemPoolAttrUsedMemHigh));
        TRUE(count(p, cudaMemPoolAttrReservedMemHigh) >= count(p, cudaMemPoolAttrUsedMemHigh));
        CHECK(cudaMemPoolTrimTo(p, 0));
        TRUE(!count(p, cudaMemPoolAttrReservedMemCurrent));
        cuuint64_t zero = 0, one = 1;
        CHECK(cudaMemPoolSetAttribute(p, cudaMemPoolAttrUsedMemHigh, &zero));
        TRUE(!count(p, cudaMemPoolAttrUsedMemHigh));
        FAILS(cudaMemPoolSetAttribute(p, cudaMemPoolAttrUsedMemHigh, &one), cudaErrorInvalidValue);
    }
    say(mine);
    return right();
}
