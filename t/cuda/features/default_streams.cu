// SPDX-License-Identifier: Apache-2.0
// The legacy default stream waits for all blocking streams and they for it; non-blocking ones do
// not; a thread's own default stream is a blocking stream.
#include <atomic>
#include <thread>

#include "check.h"

static std::atomic<int> order{0};

static void CUDART_CB note(void *at) { *(int *)at = ++order; }

// A stream stands there until the word is 1. A host function could not be the gate: a driver may
// call those of all streams in one thread.
static void wait_for(CUdeviceptr gate, cudaStream_t s)
{
    DRIVER(cuStreamWaitValue32(s, gate, 1, CU_STREAM_WAIT_VALUE_EQ));
}

int main()
{
    CUdeviceptr gate;
    cudaStream_t side;
    CHECK(cudaFree(nullptr));
    DRIVER(cuMemAlloc(&gate, 4));
    DRIVER(cuMemsetD32(gate, 0, 1));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
    cudaStream_t blocking, other;
    CHECK(cudaStreamCreate(&blocking));
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    int in_blocking = 0, in_legacy = 0, in_other = 0, in_mine = 0, in_thread = 0;

    wait_for(gate, blocking);
    CHECK(cudaLaunchHostFunc(blocking, note, &in_blocking));
    CHECK(cudaLaunchHostFunc(cudaStreamLegacy, note, &in_legacy));  // waits for the blocking stream
    CHECK(cudaLaunchHostFunc(cudaStreamPerThread, note, &in_mine));  // waits for the legacy one
    CHECK(cudaLaunchHostFunc(other, note, &in_other));               // waits for nobody
    CHECK(cudaStreamSynchronize(other));
    TRUE(in_other == 1 && !in_blocking && !in_legacy && !in_mine);
    FAILS(cudaStreamQuery(cudaStreamLegacy), cudaErrorNotReady);
    FAILS(cudaStreamQuery(blocking), cudaErrorNotReady);
    DRIVER(cuStreamWriteValue32(side, gate, 1, 0));
    CHECK(cudaDeviceSynchronize());
    TRUE(in_blocking == 2 && in_legacy == 3 && in_mine == 4);

    // Another thread's default stream is another one.
    DRIVER(cuStreamWriteValue32(side, gate, 0, 0));
    CHECK(cudaStreamSynchronize(side));
    wait_for(gate, cudaStreamPerThread);
    std::thread t([&] {
        CHECK(cudaLaunchHostFunc(cudaStreamPerThread, note, &in_thread));
        CHECK(cudaStreamSynchronize(cudaStreamPerThread));
    });
    t.join();
    TRUE(in_thread == 5);
    FAILS(cudaStreamQuery(cudaStreamPerThread), cudaErrorNotReady);
    DRIVER(cuStreamWriteValue32(side, gate, 1, 0));
    CHECK(cudaStreamSynchronize(cudaStreamPerThread));
    CHECK(cudaStreamDestroy(blocking));
    CHECK(cudaStreamDestroy(other));
    CHECK(cudaStreamDestroy(side));
    DRIVER(cuMemFree(gate));
    return right();
}
