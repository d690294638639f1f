// SPDX-License-Identifier: Apache-2.0
// Wait for the work, read its result, step after step; and everything that can come between the
// two.
//
//   read_after_wait [STEPS]   with a number: that many plain steps, and nothing else
#include "check.h"

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#define IS(got, wanted) \
    do \
        if (const int g = (got), w = (wanted); g != w) \
            printf("line %d: %d, not %d\n", __LINE__, g, w), exit(1); \
    while (0)

__global__ void set(int *p, int value) { *p = value; }

__global__ void set_late(int *p, int value, long long ticks)
{
    for (long long start = clock64(); clock64() - start < ticks;) {}
    *p = value;
}

static int read(const int *p)
{
    int value = -1;
    CHECK(cudaMemcpy(&value, p, sizeof value, cudaMemcpyDeviceToHost));
    return value;
}

static int read(const int *p, cudaStream_t stream)
{
    int value = -1;
    CHECK(cudaMemcpyAsync(&value, p, sizeof value, cudaMemcpyDeviceToHost,
                          stream));  // pageable: there when it returns
    return value;
}

static int step(int *p, int value)
{
    set<<<1, 1>>>(p, value);
    CHECK(cudaDeviceSynchronize());
    return read(p);
}

static void plain(int *p, int steps)
{
    for (int i = 0; i < steps; i++) IS(step(p, i), i);
}

// The same event for two threads.
class Gate {
public:
    void pass(int turn)
    {
        std::unique_lock lock(mutex_);
        turn_ = turn;
        changed_.notify_all();
    }
    void wait(int turn)
    {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return turn_ == turn; });
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    int turn_ = 0;
};

// Another thread's stream writes what this one reads, and is done between this one's wait and its
// read.
static void told_by_another_thread(int *p, int *q)
{
    cudaStream_t a, b;
    CHECK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    for (int i = 0; i < 10; i++) {  // until the read is expected
        set<<<1, 1, 0, a>>>(p, i);
        CHECK(cudaStreamSynchronize(a));
        IS(read(p, a), i);
    }
    Gate launched, over;
    constexpr int kTurns = 30;
    std::thread other([&] {
        for (int i = 1; i <= kTurns; i++) {
            over.wait(-i);
            set_late<<<1, 1, 0, b>>>(p, 1000 + i, 2000000);
            launched.pass(i);
            CHECK(cudaStreamSynchronize(b));
            over.pass(i);
        }
    });
    for (int i = 1; i <= kTurns; i++) {
        over.pass(-i);
        launched.wait(i);
        set<<<1, 1, 0, a>>>(q, i);
        CHECK(cudaStreamSynchronize(a));
        over.wait(i);
        IS(read(p, a), 1000 + i);
    }
    other.join();
}

int main(int argc, char **argv)
{
    int *p, *q;
    CHECK(cudaMalloc(&p, 1 << 20));
    CHECK(cudaMalloc(&q, 1 << 20));
    if (argc > 1) {
        plain(p, atoi(argv[1]));
        puts("ok");
        return 0;
    }
    plain(p, 20);
    for (int i = 0; i < 40; i++) IS(step(i % 2 ? p : q, i), i);
    for (int i = 0; i < 60; i++) IS(step(i % 3 ? p : q, i), i);
    plain(p, 10);

    // Something comes between.
    set<<<1, 1>>>(p, 5);
    CHECK(cudaDeviceSynchronize());
    set<<<1, 1>>>(p, 6);
    IS(read(p), 6);
    plain(p, 10);
    set<<<1, 1>>>(p, 5);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemset(p, 1, 4));
    IS(read(p), 0x01010101);
    plain(p, 10);
    const int seven = 7;
    set<<<1, 1>>>(p, 5);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(p, &seven, 4, cudaMemcpyHostToDevice));
    IS(read(p), 7);

    // Other bytes of the same place, and more of them.
    plain(p, 10);
    std::vector<int> many((1 << 20) / 4);
    for (size_t bytes : {size_t{8}, size_t{64 << 10}, size_t{65540}, size_t{1 << 20}})
        for (int i = 0; i < 6; i++) {
            set<<<1, 1>>>(p, i);
            set<<<1, 1>>>(p + bytes / 4 - 1, i + 1);
            CHECK(cudaDeviceSynchronize());
            CHECK(cudaMemcpy(many.data(), p, bytes, cudaMemcpyDeviceToHost));
            IS(many[0], i);
            IS(many[bytes / 4 - 1], i + 1);
        }

    // The memory goes, and comes again.
    for (int i = 0; i < 20; i++) {
        plain(p, 5);
        CHECK(cudaFree(p));
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaMalloc(&p, 1 << 20));
    }

    // Reads on one stream after waits for another, and after events.
    cudaStream_t s;
    cudaEvent_t event;
    CHECK(cudaStreamCreate(&s));
    CHECK(cudaEventCreate(&event));
    for (int i = 0; i < 20; i++) {
        set_late<<<1, 1, 0, s>>>(p, i, 100000);
        CHECK(cudaStreamSynchronize(nullptr));
        IS(read(p), i);  // the legacy default stream waits for s
    }
    for (int i = 0; i < 20; i++) {
        set_late<<<1, 1, 0, s>>>(p, i, 100000);
        CHECK(cudaEventRecord(event, s));
        set<<<1, 1, 0, s>>>(p, i + 1);
        CHECK(cudaEventSynchronize(event));
        IS(read(p, s), i + 1);
    }
    told_by_another_thread(p, q);

    // Everybody at once.
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; t++)
        threads.emplace_back([mine = p + t * 1000, t] {
            cudaStream_t stream;
            CHECK(cudaStreamCreate(&stream));
            for (int i = 0; i < 50; i++) {
                set<<<1, 1, 0, stream>>>(mine, t * 100 + i);
                CHECK(cudaStreamSynchronize(stream));
                IS(read(mine, stream), t * 100 + i);
            }
        });
    for (std::thread &t : threads) t.join();
    puts("ok");
}
