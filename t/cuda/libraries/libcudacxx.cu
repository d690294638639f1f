// SPDX-License-Identifier: Apache-2.0
// libcu++ as programs use it: atomics of all scopes, barriers with phases, semaphores, latch,
// pipelines of asynchronous copies.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/latch>
#include <cuda/pipeline>
#include <cuda/semaphore>
#include <cuda/std/array>
#include <cuda/std/complex>
#include <cuda/std/optional>
#include <cuda/std/span>
#include <cuda/std/tuple>

#include "../features/check.h"

namespace cg = cooperative_groups;

// --- atomics: every thread adds to all, and takes a ticket

struct Totals {
    cuda::atomic<int, cuda::thread_scope_device> i;
    cuda::atomic<unsigned long long, cuda::thread_scope_system> u;
    cuda::atomic<float, cuda::thread_scope_device> f;
    cuda::atomic<double, cuda::thread_scope_device> d;
    cuda::atomic<short, cuda::thread_scope_device> s;
    cuda::atomic<unsigned char, cuda::thread_scope_device> c;
    cuda::atomic<bool, cuda::thread_scope_device> b;
};

__global__ void add(Totals *t, unsigned *tickets, unsigned *next)
{
    const int id = blockIdx.x * blockDim.x + threadIdx.x;
    t->i.fetch_add(id, cuda::std::memory_order_relaxed);
    t->u.fetch_max(id, cuda::std::memory_order_acq_rel);
    t->f.fetch_add(0.5f);
    t->d += 0.25;
    t->s.fetch_sub(1);
    t->c.fetch_xor(static_cast<unsigned char>(id));
    bool expected = false;
    t->b.compare_exchange_strong(expected, true);
    cuda::atomic_ref<unsigned, cuda::thread_scope_device> counter(*next);
    tickets[counter.fetch_add(1, cuda::memory_order_relaxed)] = id;
}

// --- a lock of one's own making, between blocks

__device__ cuda::atomic<int, cuda::thread_scope_device> lock_word{0};
__device__ int guarded = 0;
__global__ void locked()
{
    for (int i = 0; i < 5; i++) {
        int free = 0;
        while (!lock_word.compare_exchange_weak(free, 1, cuda::memory_order_acquire)) free = 0;
        const int seen = *(volatile int *)&guarded;
        *(volatile int *)&guarded = seen + 1;
        lock_word.store(0, cuda::memory_order_release);
    }
}

// --- wait and notify

__global__ void ping_pong(cuda::atomic<int, cuda::thread_scope_device> *ball, int *seen)
{
    for (int i = 0; i < 50; i++) {
        const int mine = 2 * i + (blockIdx.x ? 1 : 0);
        for (int now; (now = ball->load(cuda::memory_order_acquire)) != mine;) ball->wait(now);
        atomicAdd(seen, 1);
        ball->store(mine + 1, cuda::memory_order_release);
        ball->notify_all();
    }
}

// --- a barrier with a completion's worth of phases, split arrive and wait

__global__ void phases(int *out)
{
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    __shared__ int room[256];
    const int me = threadIdx.x, n = blockDim.x;
    if (me == 0) init(&bar, n);
    __syncthreads();
    int value = me;
    for (int round = 0; round < 8; round++) {
        room[me] = value;
        auto token = bar.arrive();
        const int other = value * 3;
        bar.wait(cuda::std::move(token));
        value = other + room[(me + 1) % n];
        bar.arrive_and_wait();
    }
    out[me] = value;
    if (me >= 32) {
        bar.arrive_and_drop();
        return;
    }
    bar.arrive_and_wait();
    out[me] += 1;
}

// --- half of the threads produce, the others consume

__global__ void produce_and_consume(const int *in, int *out, int tiles)
{
    __shared__ cuda::barrier<cuda::thread_scope_block> ready[2], filled[2];
    __shared__ int room[2][64];
    if (threadIdx.x < 4)
        init(threadIdx.x < 2 ? &ready[threadIdx.x] : &filled[threadIdx.x - 2], blockDim.x);
    __syncthreads();
    const int lane = threadIdx.x % 64;
    if (threadIdx.x < 64) {
        for (int t = 0; t < tiles; t++) {
            ready[t % 2].arrive_and_wait();
            room[t % 2][lane] = in[t * 64 + lane] * 2;
            auto token = filled[t % 2].arrive();
            (void)token;
        }
    } else {
        auto first = ready[0].arrive(), second = ready[1].arrive();
        (void)first, (void)second;
        for (int t = 0; t < tiles; t++) {
            filled[t % 2].arrive_and_wait();
            out[t * 64 + lane] = room[t % 2][63 - lane];
            auto token = ready[t % 2].arrive();
            (void)token;
        }
    }
}

// --- a pipeline of asynchronous copies, two stages deep

template <int stages> __global__ void pipelined(const float *in, float *out, int n)
{
    constexpr int tile = 128;
    __shared__ alignas(16) float room[stages][tile];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, stages> state;
    auto block = cg::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    const int tiles = n / tile;
    int asked = 0;
    for (int t = 0; t < tiles; t++) {
        for (; asked < tiles && asked < t + stages; asked++) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, room[asked % stages], in + asked * tile,
                               cuda::aligned_size_t<16>(tile * sizeof(float)), pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        block.sync();
        out[t * tile + threadIdx.x] = room[t % stages][tile - 1 - threadIdx.x] + 1;
        pipe.consumer_release();
    }
}

// --- semaphores and latches

__global__ void limited(int *inside, int *most)
{
    __shared__ cuda::counting_semaphore<cuda::thread_scope_block, 4> gate;
    using Latch = cuda::latch<cuda::thread_scope_block>;
    __shared__ alignas(Latch) char latch[sizeof(Latch)];
    Latch &done = *reinterpret_cast<Latch *>(latch);
    __shared__ int now;
    if (threadIdx.x == 0) {
        new (&gate) cuda::counting_semaphore<cuda::thread_scope_block, 4>(4);
        new (&done) Latch(blockDim.x);
        now = 0;
    }
    __syncthreads();
    gate.acquire();
    atomicMax(most, atomicAdd(&now, 1) + 1);
    atomicAdd(inside, 1);
    atomicSub(&now, 1);
    gate.release();
    done.arrive_and_wait();
}

// --- the parts of the standard library that live on the device

__global__ void standard(double *out)
{
    using cuda::std::complex;
    complex<double> z(1, 2), w = cuda::std::exp(z) * cuda::std::conj(z);
    cuda::std::array<int, 4> a{4, 3, 2, 1};
    int sum = 0;
    for (int v : a) sum += v;
    auto t = cuda::std::make_tuple(sum, 2.5);
    cuda::std::optional<double> o;
    if (threadIdx.x == 0) o = cuda::std::get<1>(t);
    out[0] = w.real();
    out[1] = w.imag();
    out[2] = cuda::std::get<0>(t) + o.value_or(100);
}

int main()
{
    Totals *t;
    unsigned *tickets, *next;
    CHECK(cudaMallocManaged(&t, sizeof *t));
    CHECK(cudaMallocManaged(&tickets, 4096 * sizeof(unsigned)));
    CHECK(cudaMallocManaged(&next, sizeof *next));
    memset((void *)t, 0, sizeof *t);
    *next = 0;
    add<<<16, 256>>>(t, tickets, next);
    CHECK(cudaDeviceSynchronize());
    TRUE(t->i.load() == 4096 * 4095 / 2 && t->u.load() == 4095 && t->f.load() == 2048 &&
         t->d.load() == 1024);
    TRUE(t->s.load() == -4096 && t->c.load() == 0 && t->b.load() && *next == 4096);
    std::vector<bool> seen(4096);
    for (int i = 0; i < 4096; i++) seen[tickets[i]] = true;
    for (int i = 0; i < 4096; i++) TRUE(seen[i]);

    locked<<<8, 64>>>();
    CHECK(cudaDeviceSynchronize());
    int count;
    CHECK(cudaMemcpyFromSymbol(&count, guarded, sizeof count));
    TRUE(count == 8 * 64 * 5);

    cuda::atomic<int, cuda::thread_scope_device> *ball;
    int *ints;
    CHECK(cudaMallocManaged(&ball, sizeof *ball));
    CHECK(cudaMallocManaged(&ints, 1 << 20));
    new (ball) cuda::atomic<int, cuda::thread_scope_device>(0);
    ints[0] = 0;
    ping_pong<<<2, 1>>>(ball, ints);
    CHECK(cudaDeviceSynchronize());
    TRUE(ints[0] == 100 && ball->load() == 100);

    phases<<<1, 256>>>(ints);
    CHECK(cudaDeviceSynchronize());
    std::vector<int> value(256), old;
    for (int i = 0; i < 256; i++) value[i] = i;
    for (int r = 0; r < 8; r++) {
        old = value;
        for (int i = 0; i < 256; i++)
            value[i] = int(unsigned(old[i]) * 3 + unsigned(old[(i + 1) % 256]));
    }
    for (int i = 0; i < 256; i++) TRUE(ints[i] == value[i] + (i < 32));

    int *in = ints + 4096, *out = ints + 8192;
    for (int i = 0; i < 20 * 64; i++) in[i] = i;
    produce_and_consume<<<1, 128>>>(in, out, 20);
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < 20 * 64; i++) TRUE(out[i] == 2 * (i / 64 * 64 + 63 - i % 64));

    float *f, *g;
    CHECK(cudaMallocManaged(&f, 4096 * 4));
    CHECK(cudaMallocManaged(&g, 4096 * 4));
    for (int i = 0; i < 4096; i++) f[i] = i;
    pipelined<2><<<1, 128>>>(f, g, 4096);
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < 4096; i++) TRUE(g[i] == i / 128 * 128 + 127 - i % 128 + 1);
    pipelined<4><<<1, 128>>>(f, g, 4096);
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < 4096; i++) TRUE(g[i] == i / 128 * 128 + 127 - i % 128 + 1);

    ints[0] = ints[1] = 0;
    limited<<<1, 64>>>(ints, ints + 1);
    CHECK(cudaDeviceSynchronize());
    TRUE(ints[0] == 64 && ints[1] >= 1 && ints[1] <= 4);

    double *d;
    CHECK(cudaMallocManaged(&d, 64));
    standard<<<1, 1>>>(d);
    CHECK(cudaDeviceSynchronize());
    const double e = exp(1.0), re = e * cos(2.0), im = e * sin(2.0);
    TRUE(fabs(d[0] - (re + 2 * im)) < 1e-12 && fabs(d[1] - (im - 2 * re)) < 1e-12 && d[2] == 12.5);
    return right();
}
