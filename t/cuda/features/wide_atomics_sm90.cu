// SPDX-License-Identifier: Apache-2.0
// Atomics of all types between blocks: integers, floats, halves, 16 to 128 bits.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "check.h"

struct alignas(16) Wide {
    unsigned long long low, high;
};

__device__ Wide exchange(Wide *p, Wide v)
{
    Wide old;
    asm volatile("{ .reg .b128 d, s; mov.b128 s, {%3, %4}; atom.global.exch.b128 d, [%2], s; "
                 "mov.b128 {%0, %1}, d; }"
                 : "=l"(old.low), "=l"(old.high)
                 : "l"(p), "l"(v.low), "l"(v.high)
                 : "memory");
    return old;
}
__device__ Wide compare_and_swap(Wide *p, Wide expected, Wide v)
{
    Wide old;
    asm volatile("{ .reg .b128 d, c, s; mov.b128 c, {%3, %4}; mov.b128 s, {%5, %6}; "
                 "atom.global.cas.b128 d, [%2], c, s; mov.b128 {%0, %1}, d; }"
                 : "=l"(old.low), "=l"(old.high)
                 : "l"(p), "l"(expected.low), "l"(expected.high), "l"(v.low), "l"(v.high)
                 : "memory");
    return old;
}

struct Cells {
    Wide wide, swapped;
    int add, low, high, sub;
    unsigned bits_or, bits_and, bits_xor, wrap;
    unsigned long long big;
    float f;
    double d;
    __half2 h2;
    __nv_bfloat162 b2;
    __half h;
    unsigned short word, pad[3];
    unsigned long long sum_of_old;
};

__global__ void all(Cells *c)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&c->add, i);
    atomicSub(&c->sub, 1);
    atomicMin(&c->low, -i);
    atomicMax(&c->high, i);
    atomicOr(&c->bits_or, 1u << i % 32);
    atomicAnd(&c->bits_and, ~(1u << i % 16));
    atomicXor(&c->bits_xor, i);
    atomicInc(&c->wrap, 99);
    atomicAdd(&c->big, 1ull << 33);
    atomicAdd(&c->f, 0.5f);
    atomicAdd(&c->d, 0.25);
    if (i < 128) {
        atomicAdd(&c->h2, __floats2half2_rn(1, 2));
        atomicAdd(&c->b2, __floats2bfloat162_rn(1, -1));
        atomicAdd(&c->h, __float2half(1));
    }
    for (unsigned short seen = c->word;;) {
        const unsigned short was = atomicCAS(&c->word, seen, (unsigned short)(seen + 1));
        if (was == seen) break;
        seen = was;
    }
    // Both halves always belong together.
    for (Wide seen = {0, 0};;) {
        const Wide was = compare_and_swap(&c->wide, seen, {seen.low + 1, seen.high + 3});
        if (was.low == seen.low && was.high == seen.high) break;
        if (was.high != 3 * was.low) __trap();
        seen = was;
    }
    const unsigned long long mine = i + 1;
    const Wide old = exchange(&c->swapped, {mine, ~mine});
    if (old.low != ~old.high) __trap();
    atomicAdd(&c->sum_of_old, old.low);
}

int main()
{
    Cells *c, got = {};
    got.bits_and = ~0u;
    got.swapped = {0, ~0ull};
    CHECK(cudaMalloc(&c, sizeof *c));
    CHECK(cudaMemcpy(c, &got, sizeof got, cudaMemcpyHostToDevice));
    const int n = 20 * 64;
    all<<<20, 64>>>(c);
    CHECK(cudaMemcpy(&got, c, sizeof got, cudaMemcpyDeviceToHost));
    unsigned x = 0;
    for (int i = 0; i < n; i++) x ^= i;
    TRUE(got.add == n * (n - 1) / 2 && got.sub == -n && got.low == 1 - n && got.high == n - 1);
    TRUE(got.bits_or == ~0u && got.bits_and == 0xFFFF0000u && got.bits_xor == x &&
         got.wrap == n % 100);
    TRUE(got.big == (unsigned long long)n << 33 && got.f == n / 2.0f && got.d == n / 4.0);
    TRUE(__low2float(got.h2) == 128 && __high2float(got.h2) == 256 && __half2float(got.h) == 128);
    TRUE(__low2float(got.b2) == 128 && __high2float(got.b2) == -128);
    TRUE(got.word == n && got.wide.low == n && got.wide.high == 3ull * n);
    TRUE(got.sum_of_old + got.swapped.low == (unsigned long long)n * (n + 1) / 2);
    return right();
}
