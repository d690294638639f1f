// SPDX-License-Identifier: Apache-2.0
// A tenant of a shared GPU, for tests: kernels that spin for a time of their own choosing, whatever
// the GPU's speed, and note when each began and ended.
//
//   tenant KEY=VALUE...
//     file=PATH      what its kernels noted goes there: pairs of 64-bit nanoseconds (%globaltimer)
//     us=2000        how long each kernel spins, in microseconds
//     begin=T        it starts at T, and ends ...
//     seconds=10     ... so much later; T in seconds since the epoch
//     mode=async     a few milliseconds of kernels are always in the queue
//          sync      each launch is waited for
//          graph     as async, in graphs of several kernels
//          threads   as async, from eight threads with streams of their own
//          never     launches as fast as it can, and waits for nothing before its time is over
//     away=A-B       launches nothing from A to B seconds after its start
//     long=A:MS      one kernel of MS milliseconds, A seconds after its start
//     gap=US         rests so long after each launch that was waited for
//
// Prints one line: kernels, wall seconds.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include <cuda_runtime.h>

typedef unsigned long long u64;

struct Notes {
    u64 used, capacity, end;
    u64 times[1];
};

__device__ u64 clock_ns()
{
    u64 t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
}

__global__ void spin(Notes *notes, u64 ns)
{
    u64 begin = clock_ns(), now = begin;
    if (begin >= notes->end) return;
    while (now - begin < ns) now = clock_ns();
    u64 i = atomicAdd(&notes->used, 1ull);
    if (i < notes->capacity) {
        notes->times[2 * i] = begin;
        notes->times[2 * i + 1] = now;
    }
}

static void check(cudaError_t status, const char *what)
{
    if (status == cudaSuccess) return;
    fprintf(stderr, "%s: %s\n", what, cudaGetErrorName(status));
    exit(3);
}
#define CHECK(call) check(call, #call)

static std::string text(int argc, char **argv, const char *key, const char *otherwise)
{
    for (int i = 1; i < argc; ++i)
        if (!strncmp(argv[i], key, strlen(key)) && argv[i][strlen(key)] == '=')
            return argv[i] + strlen(key) + 1;
    return otherwise;
}

static double wall()
{
    timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void rest(double seconds)
{
    if (seconds > 0) std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

struct Plan {
    Notes *notes;
    double us, begin, seconds, away_from, away_to, long_at, long_ms, gap;
    std::string mode;
    std::atomic<bool> long_done{false};

    double end() const { return begin + seconds; }
};

// Sleeps while it is away; false when its time is over.
static bool goes_on(Plan &p)
{
    double t = wall() - p.begin;
    if (t >= p.away_from && t < p.away_to) rest(p.away_to - t);
    return wall() < p.end();
}

static void maybe_long(Plan &p, cudaStream_t stream)
{
    if (p.long_ms > 0 && wall() - p.begin >= p.long_at && !p.long_done.exchange(true))
        spin<<<1, 1, 0, stream>>>(p.notes, (u64)(p.long_ms * 1e6));
}

// Some events' worth of work is always in the queue.
static void keep_busy(Plan &p)
{
    const int kRing = 4;
    const int batch = std::max(1, (int)(2000 / p.us));
    cudaStream_t stream;
    cudaEvent_t ring[kRing];
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (cudaEvent_t &e : ring) CHECK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    cudaGraphExec_t exec = nullptr;
    if (p.mode == "graph") {
        cudaGraph_t graph;
        CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        for (int i = 0; i < batch; ++i) spin<<<1, 1, 0, stream>>>(p.notes, (u64)(p.us * 1e3));
        CHECK(cudaStreamEndCapture(stream, &graph));
        CHECK(cudaGraphInstantiate(&exec, graph, 0));
    }
    for (int n = 0; goes_on(p); ++n) {
        maybe_long(p, stream);
        if (exec)
            CHECK(cudaGraphLaunch(exec, stream));
        else
            for (int i = 0; i < batch; ++i) spin<<<1, 1, 0, stream>>>(p.notes, (u64)(p.us * 1e3));
        CHECK(cudaGetLastError());
        CHECK(cudaEventRecord(ring[n % kRing], stream));
        if (n + 1 >= kRing) CHECK(cudaEventSynchronize(ring[(n + 1) % kRing]));
    }
    CHECK(cudaStreamSynchronize(stream));
}

static void one_by_one(Plan &p)
{
    while (goes_on(p)) {
        maybe_long(p, 0);
        spin<<<1, 1>>>(p.notes, (u64)(p.us * 1e3));
        CHECK(cudaDeviceSynchronize());
        rest(p.gap * 1e-6);
    }
}

static void never_wait(Plan &p)
{
    while (goes_on(p)) {
        maybe_long(p, 0);
        spin<<<1, 1>>>(p.notes, (u64)(p.us * 1e3));
        CHECK(cudaGetLastError());
    }
    CHECK(cudaDeviceSynchronize());
}

int main(int argc, char **argv)
{
    auto get = [&](const char *key, const char *otherwise) {
        return text(argc, argv, key, otherwise);
    };
    auto number = [&](const char *key, const char *otherwise) {
        return atof(get(key, otherwise).c_str());
    };
    Plan p;
    p.us = number("us", "2000");
    p.begin = number("begin", "0");
    if (p.begin == 0) p.begin = wall();
    p.seconds = number("seconds", "10");
    p.mode = get("mode", "async");
    p.gap = number("gap", "0");
    p.away_from = p.away_to = -1;
    p.long_at = p.long_ms = 0;
    sscanf(get("away", "").c_str(), "%lf-%lf", &p.away_from, &p.away_to);
    sscanf(get("long", "").c_str(), "%lf:%lf", &p.long_at, &p.long_ms);

    u64 capacity = (u64)(p.seconds * 1e6 / p.us * 1.5) * (p.mode == "threads" ? 8 : 1) + 1000;
    size_t bytes = sizeof(Notes) + 2 * capacity * sizeof(u64);
    CHECK(cudaMalloc(&p.notes, bytes));
    Notes head = {0, capacity, (u64)(p.end() * 1e9), {0}};
    CHECK(cudaMemcpy(p.notes, &head, sizeof head, cudaMemcpyHostToDevice));
    // Loads the kernel, and leaves at once.
    Notes *past;
    Notes none = {0, 0, 0, {0}};
    CHECK(cudaMalloc(&past, sizeof none));
    CHECK(cudaMemcpy(past, &none, sizeof none, cudaMemcpyHostToDevice));
    spin<<<1, 1>>>(past, 0);
    CHECK(cudaDeviceSynchronize());

    rest(p.begin - wall());
    double started = wall();
    if (p.mode == "threads") {
        std::vector<std::thread> threads;
        for (int i = 0; i < 8; ++i) threads.emplace_back([&p] { keep_busy(p); });
        for (std::thread &t : threads) t.join();
    } else if (p.mode == "sync") {
        one_by_one(p);
    } else if (p.mode == "never") {
        never_wait(p);
    } else {
        keep_busy(p);
    }
    double took = wall() - started;
    CHECK(cudaMemcpy(&head, p.notes, sizeof head, cudaMemcpyDeviceToHost));
    printf("%llu kernels in %.3f s\n", head.used, took);
    std::string file = get("file", "");
    if (file.empty()) return 0;
    std::vector<u64> times(2 * std::min(head.used, capacity));
    CHECK(cudaMemcpy(times.data(), p.notes->times, times.size() * sizeof(u64),
                     cudaMemcpyDeviceToHost));
    FILE *out = fopen(file.c_str(), "wb");
    if (!out || fwrite(times.data(), sizeof(u64), times.size(), out) != times.size() ||
        fclose(out)) {
        perror(file.c_str());
        return 1;
    }
    return 0;
}
