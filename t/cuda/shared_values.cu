// SPDX-License-Identifier: Apache-2.0
// Streams that wait for and write values in host memory (cuStreamWaitValue, cuStreamWriteValue,
// cuStreamBatchMemOp): the program writes a flag, waits for one by looking at it, and makes no CUDA
// call meanwhile.
#include "check.h"
#include <cuda.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#define CHECK_CU(call) \
    do { \
        CUresult error = (call); \
        if (error != CUDA_SUCCESS) { \
            fprintf(stderr, "line %d: %s: %d\n", __LINE__, #call, error); \
            exit(1); \
        } \
    } while (0)
#undef TRUE
#define TRUE(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "line %d: not so: %s\n", __LINE__, #what); \
            exit(1); \
        } \
    } while (0)

constexpr int kWords = 4096;

// What the program and the streams exchange. Data lies before and behind the flags.
struct Board {
    unsigned in[kWords];
    unsigned go, done;
    uint64_t go64, done64;
    unsigned out[kWords];
};

__global__ void answer(Board *b, unsigned add)
{
    for (int i = threadIdx.x; i < kWords; i += blockDim.x) b->out[i] = b->in[i] * 3 + add;
}

template <class T> static void look_for(T &flag, T value)
{
    const auto start = std::chrono::steady_clock::now();
    while (__atomic_load_n(&flag, __ATOMIC_ACQUIRE) != value) {
        if (std::chrono::steady_clock::now() - start > std::chrono::seconds(60)) {
            fprintf(stderr, "%llu never came, there is %llu\n", (unsigned long long)value,
                    (unsigned long long)__atomic_load_n(&flag, __ATOMIC_ACQUIRE));
            exit(1);
        }
        std::this_thread::yield();
    }
}

static void fill(Board &b, unsigned round)
{
    for (int i = 0; i < kWords; i++) b.in[i] = round * 1000003u + i;
}
static void expect(const Board &b, unsigned round, unsigned add)
{
    for (int i = 0; i < kWords; i++) {
        if (b.out[i] == (round * 1000003u + i) * 3 + add) continue;
        fprintf(stderr, "round %u: out[%d] is %u\n", round, i, b.out[i]);
        exit(1);
    }
}

// Every round stands in the stream before the program sets the first flag.
static void ping_pong(Board &b, Board *device, unsigned rounds, bool wide)
{
    cudaStream_t s;
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    memset(&b, 0, sizeof b);
    const unsigned first = 0xf8;  // the flags go from one byte to two
    for (unsigned i = first; i < first + rounds; i++) {
        if (wide)
            CHECK_CU(cuStreamWaitValue64(s, (CUdeviceptr)&device->go64, uint64_t{i} << 20,
                                         CU_STREAM_WAIT_VALUE_GEQ));
        else
            CHECK_CU(cuStreamWaitValue32(s, (CUdeviceptr)&device->go, i, CU_STREAM_WAIT_VALUE_EQ));
        answer<<<1, 64, 0, s>>>(device, i);
        CHECK(cudaGetLastError());
        if (wide)
            CHECK_CU(cuStreamWriteValue64(s, (CUdeviceptr)&device->done64, uint64_t{i} << 20,
                                          CU_STREAM_WRITE_VALUE_DEFAULT));
        else
            CHECK_CU(cuStreamWriteValue32(s, (CUdeviceptr)&device->done, i,
                                          CU_STREAM_WRITE_VALUE_DEFAULT));
    }
    for (unsigned i = first; i < first + rounds; i++) {
        fill(b, i);
        if (wide) {
            __atomic_store_n(&b.go64, uint64_t{i} << 20, __ATOMIC_RELEASE);
            look_for(b.done64, uint64_t{i} << 20);
        } else {
            __atomic_store_n(&b.go, i, __ATOMIC_RELEASE);
            look_for(b.done, i);
        }
        expect(b, i, i);
    }
    CHECK(cudaStreamSynchronize(s));
    CHECK(cudaStreamDestroy(s));
}

// One stream waits for the program and for another stream's value, in one batch; AND and NOR.
static void batches(Board &b, Board *device)
{
    cudaStream_t s, other;
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    memset(&b, 0, sizeof b);
    b.done = ~0u;
    CUstreamBatchMemOpParams p[3] = {};
    p[0].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    p[0].waitValue.address = (CUdeviceptr)&device->go;
    p[0].waitValue.value = 0x10;
    p[0].waitValue.flags = CU_STREAM_WAIT_VALUE_AND;
    p[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    p[1].waitValue.address = (CUdeviceptr)&device->done;
    p[1].waitValue.value = 0xfffffffe;
    p[1].waitValue.flags = CU_STREAM_WAIT_VALUE_NOR;
    p[2].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
    p[2].writeValue.address = (CUdeviceptr)&device->done64;
    p[2].writeValue.value64 = 0x123456789abcdefull;
    CHECK_CU(cuStreamBatchMemOp(s, 3, p, 0));
    TRUE(cudaStreamQuery(s) == cudaErrorNotReady);
    __atomic_store_n(&b.go, 0x31, __ATOMIC_RELEASE);
    TRUE(cudaStreamQuery(s) == cudaErrorNotReady);
    CHECK_CU(cuStreamWriteValue32(other, (CUdeviceptr)&device->done, 0,
                                  CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER));
    look_for(b.done64, uint64_t{0x123456789abcdefull});
    TRUE(b.done == 0);
    CHECK(cudaStreamSynchronize(s));
    CHECK(cudaStreamSynchronize(other));
    // What is wrong is said at once.
    TRUE(cuStreamWaitValue32(s, (CUdeviceptr)&device->go + 1, 0, 0) == CUDA_ERROR_INVALID_VALUE);
    TRUE(cuStreamWriteValue64(s, (CUdeviceptr)&device->go64 + 4, 0, 0) == CUDA_ERROR_INVALID_VALUE);
    TRUE(cuStreamWriteValue32(s, (CUdeviceptr)&s, 0, 0) == CUDA_ERROR_INVALID_VALUE);
    p[2].writeValue.address += 4;
    TRUE(cuStreamBatchMemOp(s, 3, p, 0) == CUDA_ERROR_INVALID_VALUE);
    p[2].operation = (CUstreamBatchMemOpType)77;
    TRUE(cuStreamBatchMemOp(s, 3, p, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cudaStreamDestroy(s));
    CHECK(cudaStreamDestroy(other));
}

int main()
{
    Board *mapped, *plain, *device;
    load_ahead(answer);
    CHECK(cudaHostAlloc(&mapped, sizeof *mapped, cudaHostAllocMapped));
    CHECK(cudaHostGetDevicePointer(&device, mapped, 0));
    ping_pong(*mapped, device, 40, false);
    ping_pong(*mapped, device, 40, true);
    batches(*mapped, device);
    // Pinned memory whose first use by the device is such a call.
    CHECK(cudaHostAlloc(&plain, sizeof *plain, cudaHostAllocDefault));
    ping_pong(*plain, plain, 20, false);
    // Registered memory has another address for the device.
    auto own = static_cast<Board *>(aligned_alloc(4096, (sizeof(Board) + 4095) / 4096 * 4096));
    CHECK(cudaHostRegister(own, sizeof *own, cudaHostRegisterMapped));
    CHECK(cudaHostGetDevicePointer(&device, own, 0));
    ping_pong(*own, device, 20, true);
    batches(*own, device);
    CHECK(cudaHostUnregister(own));
    free(own);
    CHECK(cudaFreeHost(plain));
    CHECK(cudaFreeHost(mapped));
    // Device memory.
    CHECK(cudaMalloc(&device, sizeof *device));
    CHECK(cudaMemset(device, 0, sizeof *device));
    CHECK_CU(cuStreamWaitValue64(0, (CUdeviceptr)&device->go64, 0, CU_STREAM_WAIT_VALUE_EQ));
    CHECK_CU(cuStreamWriteValue64(0, (CUdeviceptr)&device->go64, 5, 0));
    uint64_t got = 0;
    CHECK(cudaMemcpy(&got, &device->go64, sizeof got, cudaMemcpyDeviceToHost));
    TRUE(got == 5);
    CHECK(cudaFree(device));
    puts("ok");
}
