// SPDX-License-Identifier: Apache-2.0
// Shared memory without volatile and without barriers within a warp: a warp carries an instruction
// out for all of its lanes before the next one, so its loads come before its stores.
#include <algorithm>
#include <functional>

#include "check.h"

constexpr int kThreads = 128;

// Unrolled, and as a loop.
__global__ void butterfly(const int *in, int *out)
{
    __shared__ int sums[kThreads];
    const unsigned i = threadIdx.x;
    sums[i] = in[i];
    sums[i] += sums[i ^ 8];
    sums[i] += sums[i ^ 4];
    out[i] = sums[i];
}

__global__ void butterfly_loop(const int *in, int *out, int from)
{
    __shared__ int sums[kThreads];
    const unsigned i = threadIdx.x;
    sums[i] = in[i];
    for (int k = from; k >= 1; k /= 2) sums[i] += sums[i ^ k];
    out[i] = sums[i];
}

// The last warp of a block's reduction, with fences so that the compiler leaves it as it stands.
__global__ void reduce(const int *in, int *out)
{
    __shared__ int s[kThreads];
    const unsigned t = threadIdx.x;
    s[t] = in[t];
    __syncthreads();
    if (t < 64) s[t] += s[t + 64];
    __syncthreads();
    if (t < 32) {
        s[t] += s[t + 32];
        __threadfence_block();
        s[t] += s[t + 16];
        __threadfence_block();
        s[t] += s[t + 8];
        __threadfence_block();
        s[t] += s[t + 4];
        __threadfence_block();
        s[t] += s[t + 2];
        __threadfence_block();
        s[t] += s[t + 1];
    }
    if (t == 0) *out = s[0];
}

// Lanes that have no neighbour that far leave the addition out.
__global__ void scan(const int *in, int *out, int until)
{
    __shared__ int s[kThreads];
    const int t = threadIdx.x, lane = t % 32;
    s[t] = in[t];
    for (int d = 1; d < until; d *= 2)
        if (lane >= d) s[t] += s[t - d];
    out[t] = s[t];
}

// Other lanes in each turn: those that leave one out must not be in the next one before.
__global__ void bitonic(const int *in, int *out)
{
    __shared__ int s[kThreads];
    const unsigned t = threadIdx.x;
    s[t] = in[t];
    for (unsigned k = 2; k <= 32; k *= 2)
        for (unsigned j = k / 2; j > 0; j /= 2) {
            const unsigned other = t ^ j;
            if (other > t) {
                const int a = s[t], b = s[other];
                if ((a > b) == ((t & k) == 0)) s[t] = b, s[other] = a;
            }
        }
    out[t] = s[t];
}

// What is the same for all lanes of a turn must be that turn's, and not the first lane's.
__global__ void turns(const int *in, int *out, int count)
{
    __shared__ int s[kThreads];
    const unsigned t = threadIdx.x;
    s[t] = in[t];
    int factor = 3;
    for (int k = 0; k < count; k++) {
        factor = factor * 5 + k;
        if (t >> k & 1) s[t] += s[t ^ (1 << k)] * factor;
    }
    out[t] = s[t];
}

// All lanes of a warp read where others write next.
__global__ void permute(const int *in, int *out, const int *where)
{
    __shared__ int s[kThreads];
    const unsigned t = threadIdx.x;
    s[t] = in[t];
    s[t] = s[where[t]];
    s[t] = s[where[t]];
    out[t] = s[t];
}

// Each warp turns a matrix of 32 x 32 over, without a barrier between writing and reading.
__global__ void transpose(const int *in, int *out)
{
    __shared__ int tile[4][32][33];
    const unsigned lane = threadIdx.x % 32, w = threadIdx.x / 32;
    for (int k = 0; k < 32; k++) tile[w][k][lane] = in[(lane * 7 + k * 3) % kThreads];
    for (int k = 0; k < 32; k++) out[w * 1024 + k * 32 + lane] = tile[w][lane][k];
}

// A warp of rows of 16 threads.
__global__ void rows(const int *in, int *out)
{
    __shared__ int s[8][16];
    const unsigned x = threadIdx.x, y = threadIdx.y;
    s[y][x] = in[y * 16 + x];
    s[y][x] += s[y ^ 1][x ^ 3];
    if (x < 8) s[y][x] += s[y][x + 8];
    out[y * 16 + x] = s[y][x];
}

// One lane of those with the same key wins; here by what it finds where all have written.
__global__ void winners(const int *in, int *out)
{
    __shared__ volatile int owner[4][16];
    const unsigned lane = threadIdx.x % 32, w = threadIdx.x / 32;
    const int key = in[threadIdx.x] % 16;
    owner[w][key] = static_cast<int>(lane);
    out[threadIdx.x] = owner[w][key] == static_cast<int>(lane);
}

// The histogram of the years before atomics on shared memory: a lane's tag says whose count it is.
__global__ void tagged_histogram(const int *in, int *out)
{
    __shared__ volatile unsigned counts[4][16];
    const unsigned lane = threadIdx.x % 32, w = threadIdx.x / 32, tag = lane << 27;
    if (lane < 16) counts[w][lane] = 0;
    const int key = in[threadIdx.x] % 16;
    unsigned count;
    do {
        count = tag | ((counts[w][key] & 0x07FFFFFF) + 1);
        counts[w][key] = count;
    } while (counts[w][key] != count);
    if (lane < 16) out[w * 16 + lane] = static_cast<int>(counts[w][lane] & 0x07FFFFFF);
}

// One addition for the lanes that want a place; the first one tells the others where.
__global__ void aggregate(const int *in, int *counter, int *out)
{
    __shared__ int base[4];
    const unsigned lane = threadIdx.x % 32, w = threadIdx.x / 32;
    const bool wants = in[threadIdx.x] % 3 == 0;
    const unsigned mask = __ballot_sync(~0u, wants);
    const unsigned before = __popc(mask & ((1u << lane) - 1));
    if (wants && before == 0) base[w] = atomicAdd(counter, __popc(mask));
    if (wants) out[base[w] + before] = static_cast<int>(threadIdx.x);
}

// The counter of a warp: all read it before the one adds to it.
__global__ void tickets(int *out)
{
    __shared__ volatile int next[4];
    const unsigned lane = threadIdx.x % 32, w = threadIdx.x / 32;
    if (lane == 0) next[w] = 0;
    int sum = 0;
    for (int k = 0; k < 5; k++) {
        sum += next[w];
        if (lane == 7) atomicAdd(const_cast<int *>(&next[w]), 10);
    }
    out[threadIdx.x] = sum;
}

static int in[kThreads], out[4 * 1024], *din, *dout;

static void fetch() { CHECK(cudaMemcpy(out, dout, sizeof out, cudaMemcpyDeviceToHost)); }

// One instruction of a warp: f says what each lane's s[t] becomes of what was before.
static void step(int *s, const std::function<int(const int *, int)> &f)
{
    int before[kThreads];
    std::copy(s, s + kThreads, before);
    for (int t = 0; t < kThreads; t++) s[t] = f(before, t);
}

static void expect(const int *s, const char *what)
{
    fetch();
    EXPECT(std::equal(s, s + kThreads, out), "%s", what);
}

static void check_sums()
{
    int s[kThreads];
    const auto begin = [&] { std::copy(in, in + kThreads, s); };
    const auto plus = [&](int k) { step(s, [k](const int *a, int t) { return a[t] + a[t ^ k]; }); };

    butterfly<<<1, kThreads>>>(din, dout);
    begin();
    for (int k : {8, 4}) plus(k);
    expect(s, "butterfly");

    butterfly_loop<<<1, kThreads>>>(din, dout, 16);
    begin();
    for (int k = 16; k >= 1; k /= 2) plus(k);
    expect(s, "butterfly in a loop");

    reduce<<<1, kThreads>>>(din, dout);
    fetch();
    int total = 0;
    for (int v : in) total += v;
    TRUE(out[0] == total);

    scan<<<1, kThreads>>>(din, dout, 32);
    begin();
    for (int t = 1; t < kThreads; t++)
        if (t % 32) s[t] += s[t - 1];
    expect(s, "scan");

    turns<<<1, kThreads>>>(din, dout, 5);
    begin();
    for (int k = 0, factor = 3; k < 5; k++) {
        factor = factor * 5 + k;
        step(s, [&](const int *a, int t) {
            return t >> k & 1 ? a[t] + a[t ^ (1 << k)] * factor : a[t];
        });
    }
    expect(s, "turns");

    rows<<<1, dim3(16, 8)>>>(din, dout);
    begin();
    step(s, [](const int *a, int t) { return a[t] + a[t ^ 16 ^ 3]; });
    step(s, [](const int *a, int t) { return t % 16 < 8 ? a[t] + a[t + 8] : a[t]; });
    expect(s, "rows");

    tickets<<<1, kThreads>>>(dout);
    std::fill(s, s + kThreads, 0 + 10 + 20 + 30 + 40);
    expect(s, "tickets");
}

static void check_order()
{
    int s[kThreads], where[kThreads], *dwhere;
    bitonic<<<1, kThreads>>>(din, dout);
    std::copy(in, in + kThreads, s);
    for (int w = 0; w < kThreads; w += 32) std::sort(s + w, s + w + 32);
    fetch();
    for (int w = 0; w < kThreads; w += 64) TRUE(std::equal(s + w, s + w + 32, out + w));
    for (int w = 32; w < kThreads; w += 64)  // t & 32 turns the order round
        TRUE(std::equal(s + w, s + w + 32, std::make_reverse_iterator(out + w + 32)));

    for (int t = 0; t < kThreads; t++) where[t] = t / 32 * 32 + (t * 5 + 3) % 32;
    CHECK(cudaMalloc(&dwhere, sizeof where));
    CHECK(cudaMemcpy(dwhere, where, sizeof where, cudaMemcpyHostToDevice));
    permute<<<1, kThreads>>>(din, dout, dwhere);
    std::copy(in, in + kThreads, s);
    for (int k = 0; k < 2; k++) step(s, [&](const int *a, int t) { return a[where[t]]; });
    expect(s, "permute");

    transpose<<<1, kThreads>>>(din, dout);
    fetch();
    bool turned = true;
    for (int w = 0; w < 4; w++)
        for (int k = 0; k < 32; k++)
            for (int lane = 0; lane < 32; lane++)
                turned &= out[w * 1024 + k * 32 + lane] == in[(k * 7 + lane * 3) % kThreads];
    TRUE(turned);
}

static void check_keys()
{
    winners<<<1, kThreads>>>(din, dout);
    fetch();
    for (int w = 0; w < 4; w++)
        for (int key = 0; key < 16; key++) {
            int have = 0, won = 0;
            for (int t = w * 32; t < w * 32 + 32; t++)
                if (in[t] % 16 == key) have++, won += out[t];
            TRUE(won == (have > 0));
        }

    tagged_histogram<<<1, kThreads>>>(din, dout);
    fetch();
    for (int w = 0; w < 4; w++)
        for (int key = 0; key < 16; key++)
            TRUE(out[w * 16 + key] == std::count_if(in + w * 32, in + w * 32 + 32,
                                                    [&](int v) { return v % 16 == key; }));

    int *counter;
    CHECK(cudaMalloc(&counter, 4));
    CHECK(cudaMemset(counter, 0, 4));
    aggregate<<<1, kThreads>>>(din, counter, dout);
    fetch();
    const auto wanting = std::count_if(in, in + kThreads, [](int v) { return v % 3 == 0; });
    std::sort(out, out + wanting);
    for (int t = 0, at = 0; t < kThreads; t++)
        if (in[t] % 3 == 0) TRUE(out[at++] == t);
}

int main()
{
    for (int i = 0; i < kThreads; i++) in[i] = (i * 37 + 11) % 101;
    CHECK(cudaMalloc(&din, sizeof in));
    CHECK(cudaMalloc(&dout, sizeof out));
    CHECK(cudaMemcpy(din, in, sizeof in, cudaMemcpyHostToDevice));
    check_sums();
    check_order();
    check_keys();
    return right();
}
