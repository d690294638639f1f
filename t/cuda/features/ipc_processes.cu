// SPDX-License-Identifier: Apache-2.0
// Two processes share device memory and an event by IPC handles. The program starts itself for the
// second one.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "check.h"

__global__ void add(int *a, int n, int what)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i] += what;
}

struct Message {
    cudaIpcMemHandle_t big, small;
    cudaIpcEventHandle_t ready, done;
};
constexpr int kBig = 1 << 20, kSmall = 1000;

// Threads that open a handle at the same time get one address, and it is theirs until each has
// closed it.
static void open_in_threads(const cudaIpcMemHandle_t &handle)
{
    constexpr int kThreads = 4, kRounds = 25;
    for (int round = 0; round < kRounds; round++) {
        int *opened[kThreads] = {};
        std::atomic<int> ready{0};
        std::vector<std::thread> threads;
        for (int *&to : opened)
            threads.emplace_back([&] {
                CHECK(cudaSetDevice(0));
                for (ready++; ready < kThreads;) std::this_thread::yield();
                CHECK(cudaIpcOpenMemHandle((void **)&to, handle, cudaIpcMemLazyEnablePeerAccess));
            });
        for (std::thread &t : threads) t.join();
        for (const int *address : opened) TRUE(address == opened[0]);
        for (int i = 0; i < kThreads; i++) {
            CHECK(cudaMemset(opened[0], 0, 0));
            CHECK(cudaIpcCloseMemHandle(opened[i]));
        }
        FAILS(cudaIpcCloseMemHandle(opened[0]), cudaErrorInvalidValue);
    }
}

static int other(int in, int out)
{
    Message m;
    TRUE(read(in, &m, sizeof m) == sizeof m);
    // NVIDIA's driver tells one of two threads at times that the memory is mapped already.
    if (by_rgpu()) open_in_threads(m.big);
    int *big, *small, *again;
    cudaEvent_t ready, done;
    CHECK(cudaIpcOpenMemHandle((void **)&big, m.big, cudaIpcMemLazyEnablePeerAccess));
    CHECK(cudaIpcOpenMemHandle((void **)&small, m.small, cudaIpcMemLazyEnablePeerAccess));
    const cudaError_t twice =
        cudaIpcOpenMemHandle((void **)&again, m.small, cudaIpcMemLazyEnablePeerAccess);
    TRUE(twice ? twice == cudaErrorAlreadyMapped && !by_rgpu() : again == small);
    CHECK(cudaIpcOpenEventHandle(&ready, m.ready));
    CHECK(cudaIpcOpenEventHandle(&done, m.done));
    char c;
    TRUE(read(in, &c, 1) == 1);  // from here on `ready` has been recorded
    cudaStream_t s;
    CHECK(cudaStreamCreate(&s));
    CHECK(cudaStreamWaitEvent(s, ready, 0));
    add<<<kBig / 256, 256, 0, s>>>(big, kBig, 3);
    add<<<(kSmall + 255) / 256, 256, 0, s>>>(small, kSmall, 4);
    CHECK(cudaEventRecord(done, s));
    TRUE(write(out, &c, 1) == 1);
    CHECK(cudaStreamSynchronize(s));
    // The memory is the other's: it cannot be freed here, and is gone after it was closed.
    TRUE(by_rgpu() ? cudaFree(big) == cudaErrorInvalidValue : cudaFree(big) != cudaSuccess);
    if (!twice) CHECK(cudaIpcCloseMemHandle(small));
    add<<<1, 32, 0, s>>>(small, 32, 0);
    CHECK(cudaStreamSynchronize(s));
    CHECK(cudaIpcCloseMemHandle(small));
    CHECK(cudaIpcCloseMemHandle(big));
    FAILS(cudaMemset(big, 0, 4), cudaErrorInvalidValue);
    FAILS(cudaIpcCloseMemHandle(big), cudaErrorInvalidValue);
    TRUE(read(in, &c, 1) == 1);  // the exporter has freed it
    const cudaError_t gone =
        cudaIpcOpenMemHandle((void **)&big, m.big, cudaIpcMemLazyEnablePeerAccess);
    TRUE(by_rgpu() ? gone == cudaErrorInvalidValue : gone != cudaSuccess);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3) return other(atoi(argv[1]), atoi(argv[2]));
    int down[2], up[2];
    TRUE(pipe(down) == 0 && pipe(up) == 0);
    const pid_t child = fork();
    if (child == 0) {
        char in[16], out[16];
        snprintf(in, sizeof in, "%d", down[0]);
        snprintf(out, sizeof out, "%d", up[1]);
        close(down[1]);
        execl("/proc/self/exe", argv[0], in, out, nullptr);
        _exit(9);
    }
    close(down[0]);
    close(up[1]);

    int *big, *small;
    CHECK(cudaMalloc(&big, kBig * 4));
    CHECK(cudaMalloc(&small, kSmall * 4));
    CHECK(cudaMemset(big, 0, kBig * 4));
    CHECK(cudaMemset(small, 0, kSmall * 4));
    add<<<kBig / 256, 256>>>(big, kBig, 1);
    Message m;
    cudaEvent_t ready, done;
    FAILS(cudaEventCreateWithFlags(&ready, cudaEventInterprocess), cudaErrorInvalidValue);
    CHECK(cudaEventCreateWithFlags(&ready, cudaEventInterprocess | cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&done, cudaEventInterprocess | cudaEventDisableTiming));
    CHECK(cudaIpcGetMemHandle(&m.big, big));
    CHECK(cudaIpcGetMemHandle(&m.small, small));
    CHECK(cudaIpcGetEventHandle(&m.ready, ready));
    CHECK(cudaIpcGetEventHandle(&m.done, done));
    int *mine;
    FAILS(cudaIpcOpenMemHandle((void **)&mine, m.big, cudaIpcMemLazyEnablePeerAccess),
          cudaErrorDeviceUninitialized);
    TRUE(write(down[1], &m, sizeof m) == sizeof m);
    add<<<kBig / 256, 256>>>(big, kBig, 10);
    CHECK(cudaEventRecord(ready));
    char c = 0;
    TRUE(write(down[1], &c, 1) == 1 && read(up[0], &c, 1) == 1);
    CHECK(cudaEventSynchronize(done));
    std::vector<int> got(kBig);
    CHECK(cudaMemcpy(got.data(), big, kBig * 4, cudaMemcpyDeviceToHost));
    for (int v : got) TRUE(v == 14);
    CHECK(cudaMemcpy(got.data(), small, kSmall * 4, cudaMemcpyDeviceToHost));
    for (int i = 0; i < kSmall; i++) TRUE(got[i] == 4);
    CHECK(cudaFree(big));
    CHECK(cudaFree(small));
    TRUE(write(down[1], &c, 1) == 1);
    int status = 0;
    TRUE(waitpid(child, &status, 0) == child && status == 0);
    return right();
}
