// SPDX-License-Identifier: Apache-2.0
// What is in pinned memory when a stream gets to a copy counts, not what is there when the program
// gives it: bytes that an earlier copy or host function brings; of two copies into the same memory
// the later one's stay. And what a host function holds up holds up nothing else, neither other
// streams, nor what the program says for the stream to go on, however much is behind it.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <unistd.h>

#define CHECK(call) \
    do { \
        cudaError_t e = (call); \
        if (e != cudaSuccess) { \
            printf("%d: %s: %s\n", __LINE__, #call, cudaGetErrorName(e)); \
            exit(1); \
        } \
    } while (0)

constexpr size_t kMost = 8 << 20, kHeld = 24 << 20;
unsigned char *a, *b, *h, *own;
cudaStream_t s, t;
cudaEvent_t event;

static size_t wrong(const unsigned char *p, size_t n, int value)
{
    size_t w = 0;
    for (size_t i = 0; i < n; i++) w += p[i] != value;
    return w;
}

static void expect(const char *what, size_t n, size_t wrong_bytes)
{
    if (!wrong_bytes) return;
    printf("%s: %zu of %zu bytes are wrong\n", what, wrong_bytes, n);
    exit(1);
}

// From the GPU into pinned memory and from there to the GPU.
static void round_trip(size_t n, bool two)
{
    memset(h, 7, n);
    CHECK(cudaMemset(b, 9, n));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemsetAsync(a, 42, n, s));
    CHECK(cudaMemcpyAsync(h, a, n, cudaMemcpyDeviceToHost, s));
    if (two) {
        CHECK(cudaEventRecord(event, s));
        CHECK(cudaStreamWaitEvent(t, event, 0));
    }
    CHECK(cudaMemcpyAsync(b, h, n, cudaMemcpyHostToDevice, two ? t : s));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(own, b, n, cudaMemcpyDeviceToHost));
    expect(two ? "there and back in two streams" : "there and back", n, wrong(own, n, 42));
}

static void CUDART_CB fill(void *n) { memset(h, 5, *static_cast<size_t *>(n)); }

static void filled(size_t n)
{
    memset(h, 7, n);
    CHECK(cudaLaunchHostFunc(s, fill, &n));
    CHECK(cudaMemcpyAsync(b, h, n, cudaMemcpyHostToDevice, s));
    CHECK(cudaStreamSynchronize(s));
    CHECK(cudaMemcpy(own, b, n, cudaMemcpyDeviceToHost));
    expect("filled by a host function", n, wrong(own, n, 5));
}

// Two copies into the same memory, the second behind the first by an event.
static void one_over_the_other(size_t n, size_t m)
{
    CHECK(cudaMemset(a, 1, n));
    CHECK(cudaMemset(b, 2, m));
    CHECK(cudaDeviceSynchronize());
    for (int round = 0; round < 10; round++) {
        memset(h, 0, n);
        CHECK(cudaMemcpyAsync(h, a, n, cudaMemcpyDeviceToHost, s));
        CHECK(cudaEventRecord(event, s));
        CHECK(cudaStreamWaitEvent(t, event, 0));
        CHECK(cudaMemcpyAsync(h + (n - m), b, m, cudaMemcpyDeviceToHost, t));
        CHECK(cudaStreamSynchronize(t));
        expect("one over the other", n, wrong(h, n - m, 1) + wrong(h + (n - m), m, 2));
        CHECK(cudaDeviceSynchronize());
        expect("... and later", n, wrong(h, n - m, 1) + wrong(h + (n - m), m, 2));
    }
}

static std::atomic<bool> opened{false};
static void CUDART_CB gate(void *)
{
    while (!opened) usleep(100);
}

// A stream stands at a function that waits for the program, with a large copy behind it.
static void held(bool by_event)
{
    unsigned char *large, *mine;
    CHECK(cudaMallocHost(&large, kHeld));
    CHECK(cudaMallocHost(&mine, kMost));
    opened = false;
    CHECK(cudaLaunchHostFunc(s, gate, nullptr));
    for (size_t at = 0; at < kHeld; at += kMost)
        CHECK(cudaMemcpyAsync(large + at, a, kMost, cudaMemcpyDeviceToHost, s));
    CHECK(cudaMemsetAsync(b, 3, kMost, t));
    CHECK(cudaMemcpyAsync(mine, b, kMost, cudaMemcpyDeviceToHost, t));
    if (by_event) {
        CHECK(cudaEventRecord(event, t));
        CHECK(cudaEventSynchronize(event));
    } else {
        CHECK(cudaStreamSynchronize(t));
    }
    expect("beside a stream that is held", kMost, wrong(mine, kMost, 3));
    CHECK(cudaMemsetAsync(a, 4, 1, t));  // closes the copies
    opened = true;
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFreeHost(large));
    CHECK(cudaFreeHost(mine));
}

// More than any buffer has, in pieces and as one; both ways.
static void held_much(size_t n)
{
    unsigned char *large;
    CHECK(cudaMallocHost(&large, n));
    memset(large, 6, n);
    opened = false;
    CHECK(cudaLaunchHostFunc(s, gate, nullptr));
    for (size_t at = 0; at < n; at += 2 << 20)
        CHECK(cudaMemcpyAsync(large + at, a, 2 << 20, cudaMemcpyDeviceToHost, s));
    void *p;
    CHECK(cudaMalloc(&p, 4096));  // is answered
    opened = true;
    CHECK(cudaStreamSynchronize(s));
    CHECK(cudaFree(p));
    CHECK(cudaFreeHost(large));
}

static void CUDART_CB little_sleep(void *) { usleep(5000); }

int main()
{
    CHECK(cudaMalloc(&a, kMost));
    CHECK(cudaMalloc(&b, kMost));
    CHECK(cudaMallocHost(&h, kMost));
    own = static_cast<unsigned char *>(malloc(kMost));
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&event));
    for (size_t n : {size_t{4096}, size_t{1} << 20, kMost})
        for (bool two : {false, true}) round_trip(n, two);
    for (size_t n : {size_t{4096}, kMost}) filled(n);
    one_over_the_other(64 << 10, 16 << 10);
    one_over_the_other(2 << 20, 1 << 20);
    one_over_the_other(kMost, 64 << 10);
    held(false);
    held(true);
    held_much(96 << 20);
    CHECK(cudaLaunchHostFunc(s, little_sleep, nullptr));
    CHECK(cudaDeviceReset());
    puts("ok");
    return 0;
}
