// SPDX-License-Identifier: Apache-2.0
// The legacy default stream waits for all blocking streams and they for it; non-blocking ones do
// not; a thread's own default stream is a blocking stream.
#include <atomic>
#include <thread>

#include "check.h"

static std::atomic<int> gate{0}, order{0};

static void CUDART_CB wait_for_gate(void *)
{
    while (!gate) std::this_thread::yield();
}
static void CUDART_CB note(void *at) { *(int *)at = ++order; }

int main()
{
    cudaStream_t blocking, other;
    CHECK(cudaStreamCreate(&blocking));
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    int in_blocking = 0, in_legacy = 0, in_other = 0, in_mine = 0, in_thread = 0;

    CHECK(cudaLaunchHostFunc(blocking, wait_for_gate, nullptr));
    CHECK(cudaLaunchHostFunc(blocking, note, &in_blocking));
    CHECK(cudaLaunchHostFunc(cudaStreamLegacy, note, &in_legacy));  // waits for the blocking stream
    CHECK(cudaLaunchHostFunc(cudaStreamPerThread, note, &in_mine));  // waits for the legacy one
    CHECK(cudaLaunchHostFunc(other, note, &in_other));               // waits for nobody
    CHECK(cudaStreamSynchronize(other));
    TRUE(in_other == 1 && !in_blocking && !in_legacy && !in_mine);
    FAILS(cudaStreamQuery(cudaStreamLegacy), cudaErrorNotReady);
    FAILS(cudaStreamQuery(blocking), cudaErrorNotReady);
    gate = 1;
    CHECK(cudaDeviceSynchronize());
    TRUE(in_blocking == 2 && in_legacy == 3 && in_mine == 4);

    // Another thread's default stream is another one.
    gate = 0;
    CHECK(cudaLaunchHostFunc(cudaStreamPerThread, wait_for_gate, nullptr));
    std::thread t([&] {
        CHECK(cudaLaunchHostFunc(cudaStreamPerThread, note, &in_thread));
        CHECK(cudaStreamSynchronize(cudaStreamPerThread));
    });
    t.join();
    TRUE(in_thread == 5);
    FAILS(cudaStreamQuery(cudaStreamPerThread), cudaErrorNotReady);
    gate = 1;
    CHECK(cudaStreamSynchronize(cudaStreamPerThread));
    CHECK(cudaStreamDestroy(blocking));
    CHECK(cudaStreamDestroy(other));
    return right();
}
