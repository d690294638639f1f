// SPDX-License-Identifier: Apache-2.0
// Who is together, asked inside a function that is not inlined (as all are in debug builds): lanes
// that call it from different places are not, and a lane behind a call waits for those that are
// still inside. And in loops.
#include "check.h"

__device__ __noinline__ unsigned mask() { return __activemask(); }
__device__ __noinline__ unsigned inner(int lane)
{
    if (lane % 5 == 0) return mask();
    const unsigned m = mask();
    return __shfl_sync(m, lane, __ffs(m) - 1) + 1000;
}

__global__ void kernel(unsigned *sums, unsigned *firsts, unsigned *behind, unsigned *nested)
{
    const int t = threadIdx.x, lane = t % 32;
    if (lane % 3 == 0) {
        const unsigned m = mask();
        sums[t] = __reduce_add_sync(m, lane);
    } else {
        const unsigned m = mask();
        sums[t] = __shfl_sync(m, lane, __ffs(m) - 1);
    }
    firsts[t] = mask();
    unsigned inside = 0;
    for (int i = 0; i < lane % 4; i++) inside += __popc(mask());
    behind[t] = __activemask();
    nested[t] = (lane & 1 ? inner(lane) : inner(lane) * 2) + inside * 10000;
}

// Lanes that skip the end of a loop's body are at the next turn sooner, and wait there; inner loops
// of different length, too. Unrolled, a loop is several, and some lanes go one way and some
// another.
__global__ void loops(unsigned *heads, unsigned *odd, unsigned *inner, unsigned *after, int n)
{
    const int t = threadIdx.x, lane = t % 32;
    unsigned head = ~0u, inside = ~0u, deepest = 0;
#pragma unroll 1
    for (int i = 0; i < n; i++) {
        head &= __activemask();
        if (lane & 1) inside &= __activemask();
#pragma unroll 1
        for (int k = 0; k <= (lane + i) % 4; k++) deepest = deepest * 31 + __popc(__activemask());
    }
    heads[t] = head, odd[t] = inside, inner[t] = deepest;
    after[t] = __activemask();
}

static void check_loops(unsigned *out)
{
    constexpr int kTurns = 3;
    loops<<<1, 64>>>(out, out + 64, out + 128, out + 192, kTurns);
    CHECK(cudaDeviceSynchronize());
    for (int t = 0; t < 64; t++) {
        const int lane = t % 32;
        TRUE(out[t] == ~0u);
        TRUE(out[64 + t] == (lane & 1 ? 0xaaaaaaaa : ~0u));
        unsigned deepest = 0;
        for (int i = 0; i < kTurns; i++)
            for (int k = 0; k <= (lane + i) % 4; k++) deepest = deepest * 31 + 8 * (4 - k);
        TRUE(out[128 + t] == deepest);
        TRUE(out[192 + t] == ~0u);
    }
}

int main()
{
    unsigned *out;
    CHECK(cudaMallocManaged(&out, 4 * 64 * sizeof *out));
    check_loops(out);
    kernel<<<1, 64>>>(out, out + 64, out + 128, out + 192);
    CHECK(cudaDeviceSynchronize());
    for (int t = 0; t < 64; t++) {
        const int lane = t % 32;
        TRUE(out[t] == (lane % 3 ? 1u : 165u));  // 0 + 3 + ... + 30
        TRUE(out[64 + t] == ~0u);
        TRUE(out[128 + t] == ~0u);
        unsigned together = 0, first = 32;
        for (int l = 31; l >= 0; l--)
            if (l % 2 == lane % 2 && (l % 5 == 0) == (lane % 5 == 0))
                together |= 1u << l, first = l;
        const unsigned value = lane % 5 ? first + 1000 : together;
        unsigned inside = 0;
        for (int i = 0; i < lane % 4; i++) inside += 8 * (3 - i);
        TRUE(out[192 + t] == value * (lane & 1 ? 1 : 2) + inside * 10000);
    }
    return right();
}
