// SPDX-License-Identifier: Apache-2.0
// Processes share a memory pool and what is allocated from it (cuMemPoolExportToShareableHandle,
// cuMemPoolExportPointer). The program starts itself for the second process.
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

constexpr auto kFd = cudaMemHandleTypePosixFileDescriptor;

__global__ void add(int *p, int n, int v)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] += v;
}

constexpr int kMost = 8;
struct Message {
    int device, count, n[kMost];
    cudaMemPoolPtrExportData what[kMost];
};

static int other(int fd, int in, int out)
{
    Message m;
    cudaMemPool_t pool;
    TRUE(read(in, &m, sizeof m) == sizeof m);
    CHECK(cudaSetDevice(m.device));
    CHECK(cudaMemPoolImportFromShareableHandle(&pool, reinterpret_cast<void *>(intptr_t{fd}), kFd,
                                               0));
    close(fd);
    // It is the other process's to allocate from.
    int *p;
    FAILS(cudaMallocFromPoolAsync(&p, 1000, pool, nullptr), cudaErrorInvalidValue);
    FAILS(cudaDeviceSetMemPool(m.device, pool), cudaErrorInvalidValue);
    for (int i = 0; i < m.count; i++) {
        CHECK(cudaMemPoolImportPointer((void **)&p, pool, &m.what[i]));
        add<<<(m.n[i] + 255) / 256, 256>>>(p, m.n[i], 30);
        CHECK(cudaDeviceSynchronize());
        if (i % 2)
            CHECK(cudaFree(p));
        else
            CHECK(cudaFreeAsync(p, nullptr));
        CHECK(cudaDeviceSynchronize());
        FAILS(cudaMemset(p, 0, 4), cudaErrorInvalidValue);
    }
    // What another process made up.
    cudaMemPoolPtrExportData made_up = m.what[0];
    memset(&made_up, 0xff, sizeof made_up);
    TRUE(cudaMemPoolImportPointer((void **)&p, pool, &made_up) != cudaSuccess);
    CHECK(cudaMemPoolDestroy(pool));
    TRUE(write(out, &m, 1) == 1);
    return 0;
}

static void shares(const char *program, int device)
{
    CHECK(cudaSetDevice(device));
    cudaMemPoolProps props{};
    props.allocType = cudaMemAllocationTypePinned;
    props.handleTypes = kFd;
    props.location = {cudaMemLocationTypeDevice, device};
    cudaMemPool_t pool, plain;
    CHECK(cudaMemPoolCreate(&pool, &props));
    int fd = -1, down[2], up[2];
    CHECK(cudaMemPoolExportToShareableHandle(&fd, pool, kFd, 0));
    props.handleTypes = cudaMemHandleTypeNone;
    CHECK(cudaMemPoolCreate(&plain, &props));
    int none;
    TRUE(cudaMemPoolExportToShareableHandle(&none, plain, kFd, 0) != cudaSuccess);
    CHECK(cudaMemPoolDestroy(plain));

    Message m{device, 5, {1, 1000, 1 << 20, 77, 3 << 20}, {}};
    std::vector<int *> all(m.count);
    cudaStream_t s;
    CHECK(cudaStreamCreate(&s));
    for (int i = 0; i < m.count; i++) {
        CHECK(cudaMallocFromPoolAsync(&all[i], m.n[i] * sizeof(int), pool, s));
        CHECK(cudaMemsetAsync(all[i], 0, m.n[i] * sizeof(int), s));
        add<<<(m.n[i] + 255) / 256, 256, 0, s>>>(all[i], m.n[i], 12 + i);
        CHECK(cudaMemPoolExportPointer(&m.what[i], all[i]));
    }
    CHECK(cudaStreamSynchronize(s));
    TRUE(pipe(down) == 0 && pipe(up) == 0);
    const int passed = dup(fd);  // not closed by exec
    const pid_t child = fork();
    if (child == 0) {
        close(down[1]);
        execl("/proc/self/exe", program, std::to_string(passed).c_str(),
              std::to_string(down[0]).c_str(), std::to_string(up[1]).c_str(), nullptr);
        _exit(9);
    }
    close(passed);
    close(fd);
    TRUE(write(down[1], &m, sizeof m) == sizeof m);
    char c;
    close(up[1]);
    TRUE(read(up[0], &c, 1) == 1);
    int status = 1;
    TRUE(waitpid(child, &status, 0) == child && status == 0);
    for (int i = 0; i < m.count; i++) {
        std::vector<int> got(m.n[i]);
        CHECK(cudaMemcpy(got.data(), all[i], got.size() * sizeof(int), cudaMemcpyDefault));
        for (int v : got) EXPECT(v == 42 + i, "%d", v);
        CHECK(cudaFreeAsync(all[i], s));
    }
    CHECK(cudaStreamSynchronize(s));
    cuuint64_t used = 1;
    CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
    TRUE(!used);
    // Fresh memory of a pool, which was another's before, is as good as any.
    int *p, got = 0;
    CHECK(cudaMallocFromPoolAsync(&p, 4, pool, s));
    CHECK(cudaMemsetAsync(p, 1, 4, s));
    CHECK(cudaMemcpyAsync(&got, p, 4, cudaMemcpyDefault, s));
    CHECK(cudaStreamSynchronize(s));
    TRUE(got == 0x01010101);
    CHECK(cudaFreeAsync(p, s));
    CHECK(cudaStreamDestroy(s));
    CHECK(cudaMemPoolDestroy(pool));
    close(down[0]), close(down[1]), close(up[0]);
}

int main(int argc, char **argv)
{
    if (argc == 4) return other(atoi(argv[1]), atoi(argv[2]), atoi(argv[3]));
    int devices = 0, types = 0;
    CHECK(cudaGetDeviceCount(&devices));
    for (int device = 0; device < devices; device++) {
        CHECK(cudaDeviceGetAttribute(&types, cudaDevAttrMemoryPoolSupportedHandleTypes, device));
        TRUE(types & kFd);
        shares(argv[0], device);
    }
    return right();
}
