// SPDX-License-Identifier: Apache-2.0
// Memory as the runtime API sees it: every kind of allocation and copy, pointer attributes, memory
// info, and the errors of addresses that are no memory. Runs no kernel.
#include "check.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

static void flat_copies()
{
    std::vector<int> in(100000), out(100000);
    for (size_t i = 0; i < in.size(); i++) in[i] = (int)(i * 2654435761u);
    const size_t bytes = in.size() * sizeof(int);
    int *a, *b, *pinned;
    CHECK(cudaMalloc(&a, bytes));
    CHECK(cudaMalloc(&b, bytes));
    CHECK(cudaMallocHost(&pinned, bytes));
    CHECK(cudaMemcpy(a, in.data(), bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(b, a, bytes, cudaMemcpyDeviceToDevice));
    CHECK(cudaMemcpy(out.data(), b, bytes, cudaMemcpyDefault));
    TRUE(in == out);

    cudaStream_t s;
    CHECK(cudaStreamCreate(&s));
    CHECK(cudaMemsetAsync(b, 0x5a, bytes, s));
    CHECK(cudaMemcpyAsync(pinned, b, bytes, cudaMemcpyDeviceToHost, s));
    CHECK(cudaStreamSynchronize(s));
    for (size_t i = 0; i < in.size(); i++) TRUE(pinned[i] == 0x5a5a5a5a);
    // Pageable memory may be changed as soon as the call returns.
    std::vector<int> changed = in;
    CHECK(cudaMemcpyAsync(b, changed.data(), bytes, cudaMemcpyHostToDevice, s));
    memset(changed.data(), 0, bytes);
    CHECK(cudaMemcpyAsync(out.data(), b, bytes, cudaMemcpyDeviceToHost, s));
    CHECK(cudaStreamSynchronize(s));
    TRUE(in == out);
    CHECK(cudaStreamDestroy(s));

    FAILS(cudaMemcpy(a + in.size() - 1, in.data(), 2 * sizeof(int) + 1024, cudaMemcpyHostToDevice),
          cudaErrorInvalidValue);
    FAILS(cudaMemcpy(a, (void *)((char *)a + (1ull << 42)), 4, cudaMemcpyDeviceToDevice),
          cudaErrorInvalidValue);
    CHECK(cudaFree(a));
    FAILS(cudaMemcpy(out.data(), a, 4, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
    FAILS(cudaFree(a), cudaErrorInvalidValue);
    FAILS(cudaFree((char *)b + 4), cudaErrorInvalidValue);
    CHECK(cudaFree(b));
    CHECK(cudaFree(nullptr));
    CHECK(cudaFreeHost(pinned));
}

static void boxes()
{
    const size_t width = 100, height = 20, depth = 5;
    std::vector<unsigned char> in(width * height * depth), out(in.size());
    for (size_t i = 0; i < in.size(); i++) in[i] = (unsigned char)(i * 7);
    cudaPitchedPtr d;
    CHECK(cudaMalloc3D(&d, make_cudaExtent(width, height, depth)));
    TRUE(d.pitch % 512 == 0 && d.pitch >= width);
    cudaMemcpy3DParms p = {};
    p.srcPtr = make_cudaPitchedPtr(in.data(), width, width, height);
    p.dstPtr = d;
    p.extent = make_cudaExtent(width, height, depth);
    p.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&p));
    p.srcPtr = d;
    p.dstPtr = make_cudaPitchedPtr(out.data(), width, width, height);
    p.kind = cudaMemcpyDeviceToHost;
    CHECK(cudaMemcpy3D(&p));
    TRUE(in == out);

    unsigned char *flat;
    CHECK(cudaMalloc(&flat, width * height));
    CHECK(cudaMemcpy2D(flat, width, d.ptr, d.pitch, width, height, cudaMemcpyDeviceToDevice));
    CHECK(cudaMemset2D(flat + 10, width, 0xee, 5, height));
    CHECK(cudaMemcpy(out.data(), flat, width * height, cudaMemcpyDeviceToHost));
    for (size_t y = 0; y < height; y++)
        for (size_t x = 0; x < width; x++)
            TRUE(out[y * width + x] == (x >= 10 && x < 15 ? 0xee : in[y * width + x]));
    FAILS(cudaMemset2D(flat, width, 0, width, height + 10000), cudaErrorInvalidValue);
    CHECK(cudaFree(flat));
    CHECK(cudaFree(d.ptr));
}

static void kinds()
{
    cudaPointerAttributes at;
    void *d, *h, *m, *p = malloc(8192);
    CHECK(cudaMalloc(&d, 1000));
    CHECK(cudaHostAlloc(&h, 1000, cudaHostAllocMapped));
    CHECK(cudaMallocManaged(&m, 1000));
    CHECK(cudaPointerGetAttributes(&at, (char *)d + 999));
    TRUE(at.type == cudaMemoryTypeDevice && at.device == 0 && at.devicePointer == (char *)d + 999 &&
         !at.hostPointer);
    CHECK(cudaPointerGetAttributes(&at, h));
    TRUE(at.type == cudaMemoryTypeHost && at.hostPointer == h);
    CHECK(cudaPointerGetAttributes(&at, m));
    TRUE(at.type == cudaMemoryTypeManaged && at.devicePointer == m && at.hostPointer == m);
    CHECK(cudaPointerGetAttributes(&at, p));
    TRUE(at.type == cudaMemoryTypeUnregistered);
    memset(m, 1, 1000);
    void *mapped;
    CHECK(cudaHostGetDevicePointer(&mapped, h, 0));
    CHECK(cudaHostRegister(p, 8192, 0));
    FAILS(cudaHostRegister(p, 8192, 0), cudaErrorHostMemoryAlreadyRegistered);
    CHECK(cudaPointerGetAttributes(&at, p));
    TRUE(at.type == cudaMemoryTypeHost);
    CHECK(cudaHostUnregister(p));
    FAILS(cudaHostUnregister(p), cudaErrorHostMemoryNotRegistered);
    CHECK(cudaMemcpy(m, d, 1000, cudaMemcpyDefault));
    CHECK(cudaFree(d));
    CHECK(cudaFree(m));
    CHECK(cudaFreeHost(h));
    free(p);
}

static void exhaustion()
{
    size_t before, total, now;
    CHECK(cudaMemGetInfo(&before, &total));
    char *big, *more;
    CHECK(cudaMalloc(&big, before / 2));
    CHECK(cudaMemGetInfo(&now, &total));
    TRUE(now <= before - before / 2 && before <= total);
    FAILS(cudaMalloc(&more, before), cudaErrorMemoryAllocation);
    CHECK(cudaFree(big));
    CHECK(cudaMemGetInfo(&now, &total));
    TRUE(now == before);
    // Pages that were given back hold nothing of before, unless the same process has them again,
    // as a client of rgpu may.
    unsigned char first = 1;
    CHECK(cudaMalloc(&big, 8 << 20));
    CHECK(cudaMemset(big, 0xff, 8 << 20));
    CHECK(cudaFree(big));
    CHECK(cudaMalloc(&big, 8 << 20));
    CHECK(cudaMemcpy(&first, big, 1, cudaMemcpyDeviceToHost));
    TRUE(first == 0 || getenv("RGPU_LEASE"));
    CHECK(cudaFree(big));
}

static void pools()
{
    cudaStream_t s;
    cudaMemPool_t pool;
    int *p, out[256];
    CHECK(cudaStreamCreate(&s));
    CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
    CHECK(cudaMallocAsync(&p, sizeof out, s));
    unsigned long long used;
    CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
    TRUE(used >= sizeof out);
    CHECK(cudaMemsetAsync(p, 3, sizeof out, s));
    CHECK(cudaMemcpyAsync(out, p, sizeof out, cudaMemcpyDeviceToHost, s));
    CHECK(cudaFreeAsync(p, s));
    CHECK(cudaStreamSynchronize(s));
    TRUE(out[255] == 0x03030303);
    CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
    TRUE(used == 0);
    CHECK(cudaMemPoolTrimTo(pool, 0));
    CHECK(cudaStreamDestroy(s));
}

int main()
{
    flat_copies();
    boxes();
    kinds();
    exhaustion();
    pools();
    // The runtime comes to itself again after a reset.
    CHECK(cudaDeviceReset());
    flat_copies();
    printf("soft_memory: ok\n");
}
