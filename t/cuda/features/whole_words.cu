// SPDX-License-Identifier: Apache-2.0
// Up to sixteen bytes that one block writes and another reads at the same time come whole, whatever
// they are made of: look-back over tiles keeps a value and its state in such a word (CUB's
// ScanTileState, ReduceByKeyScanTileState).
#include "check.h"

enum Kind { kRelaxedV2, kOrderedV2, kVolatileV2, kRelaxedV4, kScalar, kEight, kEightV4 };

template <int kind> __device__ void put(void *at, unsigned value)
{
    const unsigned long long wide = value;
    if (kind == kRelaxedV2)
        asm volatile("st.relaxed.gpu.global.v2.u64 [%0], {%1, %1};" ::"l"(at), "l"(wide)
                     : "memory");
    if (kind == kOrderedV2)
        asm volatile("st.release.gpu.global.v2.u64 [%0], {%1, %1};" ::"l"(at), "l"(wide)
                     : "memory");
    if (kind == kVolatileV2)
        asm volatile("st.volatile.global.v2.u64 [%0], {%1, %1};" ::"l"(at), "l"(wide) : "memory");
    if (kind == kScalar)
        asm volatile(
            "{ .reg .b128 s; mov.b128 s, {%1, %1}; st.relaxed.gpu.global.b128 [%0], s; }" ::"l"(at),
            "l"(wide)
            : "memory");
    if (kind == kEight)
        asm volatile("st.relaxed.gpu.global.v2.u32 [%0], {%1, %1};" ::"l"(at), "r"(value)
                     : "memory");
    const auto narrow = static_cast<unsigned short>(value);
    if (kind == kEightV4)
        asm volatile("st.release.gpu.global.v4.u16 [%0], {%1, %1, %1, %1};" ::"l"(at), "h"(narrow)
                     : "memory");
    if (kind == kRelaxedV4)
        asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1, %1, %1, %1};" ::"l"(at), "r"(value)
                     : "memory");
}

// Whether it was whole; its value.
template <int kind> __device__ bool get(const void *at, unsigned long long &value)
{
    unsigned long long other = 0;
    if (kind == kRelaxedV2)
        asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];"
                     : "=l"(value), "=l"(other)
                     : "l"(at)
                     : "memory");
    if (kind == kOrderedV2)
        asm volatile("ld.acquire.gpu.global.v2.u64 {%0, %1}, [%2];"
                     : "=l"(value), "=l"(other)
                     : "l"(at)
                     : "memory");
    if (kind == kVolatileV2)
        asm volatile("ld.volatile.global.v2.u64 {%0, %1}, [%2];"
                     : "=l"(value), "=l"(other)
                     : "l"(at)
                     : "memory");
    if (kind == kScalar)
        asm volatile("{ .reg .b128 d; ld.relaxed.gpu.global.b128 d, [%2]; mov.b128 {%0, %1}, d; }"
                     : "=l"(value), "=l"(other)
                     : "l"(at)
                     : "memory");
    if (kind == kEight) {
        unsigned first, second;
        asm volatile("ld.relaxed.gpu.global.v2.u32 {%0, %1}, [%2];"
                     : "=r"(first), "=r"(second)
                     : "l"(at)
                     : "memory");
        value = first, other = second;
    }
    if (kind == kEightV4) {
        unsigned short a, b, c, d;
        asm volatile("ld.acquire.gpu.global.v4.u16 {%0, %1, %2, %3}, [%4];"
                     : "=h"(a), "=h"(b), "=h"(c), "=h"(d)
                     : "l"(at)
                     : "memory");
        value = a, other = a == b && a == c ? d : a + 1;
    }
    if (kind != kRelaxedV4) return value == other;
    unsigned a, b, c, d;
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                 : "l"(at)
                 : "memory");
    value = a;
    return a == b && a == c && a == d;
}

struct Seen {
    unsigned torn, changes;
};

// Block 0 writes until block 1 has seen enough of its values.
template <int kind>
__global__ void both(void *word, volatile int *over, Seen *seen, unsigned enough)
{
    if (blockIdx.x == 0) {
        for (unsigned i = 1; !*over; i++)
            for (int k = 0; k < 100; k++) put<kind>(word, i * 100 + k);
        return;
    }
    unsigned long long value = 0, last = 0;
    while (seen->changes < enough) {
        seen->torn += !get<kind>(word, value);
        seen->changes += value != last;
        last = value;
    }
    *over = 1;
}

template <int kind> void test()
{
    constexpr unsigned kEnough = 20000;
    struct Memory {
        unsigned long long word[2];
        Seen seen;
        int over;
    } * m, result;
    CHECK(cudaMalloc(&m, sizeof *m));
    CHECK(cudaMemset(m, 0, sizeof *m));
    both<kind><<<2, 1>>>(m->word, &m->over, &m->seen, kEnough);
    CHECK(cudaMemcpy(&result, m, sizeof result, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(m));
    if (result.seen.torn) printf("kind %d: %u of them torn\n", kind, result.seen.torn);
    TRUE(!result.seen.torn && result.seen.changes == kEnough);
}

int main()
{
    test<kRelaxedV2>();
    test<kOrderedV2>();
    test<kVolatileV2>();
    test<kRelaxedV4>();
    test<kScalar>();
    test<kEight>();
    test<kEightV4>();
    return right();
}
