// SPDX-License-Identifier: Apache-2.0
// A synchronous copy to the device is over when it returns: streams that wait for no other see what
// it brought, and so do other threads' own streams. Sets of memory that the program shares with
// kernels are over, too. Of copies from pageable memory, and of copies within the device, CUDA
// promises less than rgpu: their last step may come later ("API synchronization behavior").
#include "check.h"

#include <algorithm>
#include <thread>
#include <vector>

__global__ void copy(const int *from, int *to, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[i] = from[i];
}

constexpr int kWords = 1 << 18;
static int *device, *other;
static std::vector<int> out(kWords);

// What a stream sees of the words there, by a copy or through a kernel.
static bool sees(cudaStream_t s, int value, bool by_kernel)
{
    if (by_kernel) copy<<<kWords / 256, 256, 0, s>>>(device, other, kWords);
    CHECK(cudaMemcpyAsync(out.data(), by_kernel ? other : device, kWords * sizeof(int),
                          cudaMemcpyDeviceToHost, s));
    CHECK(cudaStreamSynchronize(s));
    return std::all_of(out.begin(), out.end(), [value](int word) { return word == value; });
}

__global__ void late(int *to, int value, int turns)
{
    int x = value;
    for (int i = 0; i < turns; i++) x = x * 3 + i;
    to[blockIdx.x * blockDim.x + threadIdx.x] = x == 12345 ? x : value;
}

// In the default stream a copy between two devices comes after what either was given, whichever is
// current.
static void between_devices()
{
    int devices;
    CHECK(cudaGetDeviceCount(&devices));
    if (devices < 2) return;
    int *here, *there, value = 0;
    CHECK(cudaMalloc(&here, kWords * sizeof(int)));
    CHECK(cudaSetDevice(1));
    CHECK(cudaMalloc(&there, kWords * sizeof(int)));
    for (int i = 0; i < 6; i++) {
        CHECK(cudaSetDevice(0));
        late<<<kWords / 256, 256>>>(here, 7 + i, 200);
        CHECK(cudaGetLastError());
        CHECK(cudaSetDevice(1));
        if (i % 3 == 0) CHECK(cudaMemcpyPeer(there, 1, here, 0, kWords * sizeof(int)));
        if (i % 3 == 1)
            CHECK(cudaMemcpyPeerAsync(there, 1, here, 0, kWords * sizeof(int), nullptr));
        if (i % 3 == 2) CHECK(cudaMemcpy(there, here, kWords * sizeof(int), cudaMemcpyDefault));
        CHECK(cudaMemcpy(&value, there + kWords - 1, sizeof value, cudaMemcpyDeviceToHost));
        TRUE(value == 7 + i);
    }
    CHECK(cudaFree(there));
    CHECK(cudaSetDevice(0));
    CHECK(cudaFree(here));
}

// Where CUDA does not promise that a copy is over.
static void wait_for_copy()
{
    if (!by_rgpu()) CHECK(cudaStreamSynchronize(cudaStreamLegacy));
}

int main()
{
    between_devices();
    std::vector<int> words(kWords);
    int *pinned;
    CHECK(cudaMalloc(&device, kWords * sizeof(int)));
    CHECK(cudaMalloc(&other, kWords * sizeof(int)));
    CHECK(cudaMallocHost(&pinned, kWords * sizeof(int)));

    // The stream is younger than the copy.
    cudaStream_t stream;
    std::fill(words.begin(), words.end(), -1);
    CHECK(cudaMemcpy(device, words.data(), kWords * sizeof(int), cudaMemcpyHostToDevice));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    wait_for_copy();
    TRUE(sees(stream, -1, false));

    for (int i = 0; i < 60; i++) {
        int *const from = i % 3 ? words.data() : pinned;
        std::fill(from, from + kWords, i);
        if (i % 2)
            CHECK(cudaMemcpy(device, from, kWords * sizeof(int), cudaMemcpyHostToDevice));
        else
            CHECK(cudaMemcpy2D(device, 4096, from, 4096, 4096, kWords * sizeof(int) / 4096,
                               cudaMemcpyHostToDevice));
        if (from != pinned) wait_for_copy();
        TRUE(sees(stream, i, i % 4 / 2));
    }
    // The program looks at what it shares with kernels, right behind a set.
    char *managed, *mapped, *mapped_there;
    CHECK(cudaMallocManaged(&managed, 4096));
    CHECK(cudaHostAlloc(&mapped, 4096, cudaHostAllocMapped));
    CHECK(cudaHostGetDevicePointer(&mapped_there, mapped, 0));
    for (int i = 1; i < 20; i++) {
        CHECK(cudaMemset(managed, i, 4096));
        TRUE(managed[100] == i && managed[4095] == i);
        CHECK(cudaMemset2D(mapped_there, 64, i, 32, 8));
        TRUE(mapped[31] == i && !mapped[32] && mapped[7 * 64 + 31] == i);
        CHECK(cudaMemset(device, 3 * i, 4096));
        CHECK(cudaMemcpy(managed, device, 4096, cudaMemcpyDeviceToDevice));
        wait_for_copy();
        TRUE(managed[4095] == 3 * i);
        CHECK(cudaMemcpy2D(managed, 64, device, 64, 32, 8, cudaMemcpyDeviceToDevice));
        wait_for_copy();
        TRUE(managed[31] == 3 * i);
    }

    std::fill(words.begin(), words.end(), -2);
    CHECK(cudaMemcpy(device, words.data(), kWords * sizeof(int), cudaMemcpyHostToDevice));
    wait_for_copy();
    std::thread([] { TRUE(sees(cudaStreamPerThread, -2, true)); }).join();
    puts("right");
}
