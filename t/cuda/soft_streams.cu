// SPDX-License-Identifier: Apache-2.0
// Streams and events: order, asynchrony, the default stream's rules, host functions, callbacks,
// times. Host functions, and waits for a value, stand in for long work, so no kernel is needed.
#include "check.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

static std::atomic<int> gate, count;

static void wait_at_gate(void *)
{
    while (!gate) std::this_thread::yield();
}

// Where host functions of several streams must run while one stream waits: a driver may call all of
// them in one thread.
struct Word {
    unsigned *p;
    cudaStream_t side;
    Word()
    {
        CHECK(cudaMalloc(&p, sizeof *p));
        CHECK(cudaMemset(p, 0, sizeof *p));
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
    }
    ~Word()
    {
        CHECK(cudaStreamDestroy(side));
        CHECK(cudaFree(p));
    }
    void wait(cudaStream_t s) const
    {
        TRUE(!cuStreamWaitValue32(s, reinterpret_cast<CUdeviceptr>(p), 1, CU_STREAM_WAIT_VALUE_EQ));
    }
    void open() const { TRUE(!cuStreamWriteValue32(side, reinterpret_cast<CUdeviceptr>(p), 1, 0)); }
};
static void add_one(void *) { count++; }
static void store_count(void *to) { *(int *)to = ++count; }
static void CUDART_CB on_done(cudaStream_t, cudaError_t error, void *to)
{
    *(int *)to = error == cudaSuccess ? 1 : -1;
}

static void a_stream_is_ordered_and_asynchronous()
{
    cudaStream_t s;
    CHECK(cudaStreamCreate(&s));
    gate = count = 0;
    int place[100];
    CHECK(cudaLaunchHostFunc(s, wait_at_gate, nullptr));
    for (int &p : place) CHECK(cudaLaunchHostFunc(s, store_count, &p));
    FAILS(cudaStreamQuery(s), cudaErrorNotReady);
    TRUE(count == 0);
    gate = 1;
    CHECK(cudaStreamSynchronize(s));
    for (int i = 0; i < 100; i++) TRUE(place[i] == i + 1);
    CHECK(cudaStreamQuery(s));
    CHECK(cudaStreamDestroy(s));
}

static void default_stream_waits_for_blocking_ones_only()
{
    cudaStream_t blocking, other;
    CHECK(cudaStreamCreate(&blocking));
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    const Word word;
    count = 0;
    word.wait(blocking);
    CHECK(cudaLaunchHostFunc(cudaStreamLegacy, add_one, nullptr));
    CHECK(cudaLaunchHostFunc(blocking, add_one, nullptr));
    CHECK(cudaLaunchHostFunc(other, add_one, nullptr));
    CHECK(cudaStreamSynchronize(other));
    TRUE(count == 1);
    FAILS(cudaStreamQuery(cudaStreamLegacy), cudaErrorNotReady);
    word.open();
    CHECK(cudaDeviceSynchronize());
    TRUE(count == 3);
    CHECK(cudaStreamDestroy(blocking));
    CHECK(cudaStreamDestroy(other));
}

static void threads_have_default_streams_of_their_own()
{
    const Word word;
    count = 0;
    word.wait(cudaStreamPerThread);
    std::thread([] {
        CHECK(cudaLaunchHostFunc(cudaStreamPerThread, add_one, nullptr));
        CHECK(cudaStreamSynchronize(cudaStreamPerThread));
    }).join();
    TRUE(count == 1);
    FAILS(cudaStreamQuery(cudaStreamPerThread), cudaErrorNotReady);
    word.open();
    CHECK(cudaStreamSynchronize(cudaStreamPerThread));
}

static void events_order_streams_and_tell_time()
{
    cudaStream_t a, b;
    cudaEvent_t start, end, untimed;
    CHECK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&end));
    CHECK(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
    CHECK(cudaEventQuery(end));
    float ms;
    FAILS(cudaEventElapsedTime(&ms, start, end), cudaErrorInvalidResourceHandle);
    gate = count = 0;
    int first = 0, second = 0;
    CHECK(cudaEventRecord(start, a));
    CHECK(cudaLaunchHostFunc(a, wait_at_gate, nullptr));
    CHECK(cudaLaunchHostFunc(a, store_count, &first));
    CHECK(cudaEventRecord(end, a));
    CHECK(cudaStreamWaitEvent(b, end, 0));
    CHECK(cudaLaunchHostFunc(b, store_count, &second));
    CHECK(cudaEventRecord(untimed, b));
    FAILS(cudaEventQuery(end), cudaErrorNotReady);
    FAILS(cudaEventElapsedTime(&ms, start, end), cudaErrorNotReady);
    gate = 1;
    CHECK(cudaEventSynchronize(untimed));
    TRUE(first == 1 && second == 2);
    CHECK(cudaEventElapsedTime(&ms, start, end));
    TRUE(ms >= 0);
    FAILS(cudaEventElapsedTime(&ms, start, untimed), cudaErrorInvalidResourceHandle);
    CHECK(cudaEventDestroy(start));
    CHECK(cudaEventDestroy(end));
    CHECK(cudaEventDestroy(untimed));
    CHECK(cudaStreamDestroy(a));
    CHECK(cudaStreamDestroy(b));
}

static void callbacks_and_destroyed_streams()
{
    cudaStream_t s;
    int called = 0;
    CHECK(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, -1));
    int priority;
    CHECK(cudaStreamGetPriority(s, &priority));
    TRUE(priority == -1);
    gate = count = 0;
    CHECK(cudaLaunchHostFunc(s, wait_at_gate, nullptr));
    CHECK(cudaStreamAddCallback(s, on_done, &called, 0));
    CHECK(cudaStreamDestroy(s));
    gate = 1;
    CHECK(cudaDeviceSynchronize());
    TRUE(called == 1);
    if (by_rgpu()) FAILS(cudaStreamSynchronize(s), cudaErrorInvalidResourceHandle);
}

static void many_streams_wait_for_each_other()
{
    const int n = 64;
    std::vector<cudaStream_t> streams(n);
    std::vector<cudaEvent_t> events(n);
    std::vector<int> place(n);
    gate = count = 0;
    for (int i = 0; i < n; i++) {
        CHECK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
        CHECK(cudaEventCreateWithFlags(&events[i], cudaEventDisableTiming));
    }
    CHECK(cudaLaunchHostFunc(streams[0], wait_at_gate, nullptr));
    for (int i = 0; i < n; i++) {
        if (i) CHECK(cudaStreamWaitEvent(streams[i], events[i - 1], 0));
        CHECK(cudaLaunchHostFunc(streams[i], store_count, &place[i]));
        CHECK(cudaEventRecord(events[i], streams[i]));
    }
    gate = 1;
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < n; i++) {
        TRUE(place[i] == i + 1);
        CHECK(cudaStreamDestroy(streams[i]));
        CHECK(cudaEventDestroy(events[i]));
    }
}

int main()
{
    a_stream_is_ordered_and_asynchronous();
    default_stream_waits_for_blocking_ones_only();
    threads_have_default_streams_of_their_own();
    events_order_streams_and_tell_time();
    callbacks_and_destroyed_streams();
    many_streams_wait_for_each_other();
    printf("soft_streams: ok\n");
}
