// SPDX-License-Identifier: Apache-2.0
// A program that uses the GPUs of several servers: the first half of the devices is one server's,
// the second another's.
//   span [CASE]    CASE: as in the table at the end
#include "check.h"

#include <cuda.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

static int devices, half;

__global__ void fill(unsigned *p, size_t n, unsigned seed)
{
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        p[i] = seed + unsigned(i) * 7;
}
__global__ void add(unsigned *p, size_t n, unsigned what)
{
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        p[i] += what;
}
__device__ unsigned d_here;
__global__ void add_here(unsigned *p) { *p = d_here + 1; }

static bool is_filled(const std::vector<unsigned> &v, unsigned seed)
{
    for (size_t i = 0; i < v.size(); i++)
        if (v[i] != seed + unsigned(i) * 7) return false;
    return true;
}

static unsigned *on(int device, size_t n)
{
    unsigned *p;
    CHECK(cudaSetDevice(device));
    CHECK(cudaMalloc(&p, n * sizeof *p));
    return p;
}

static std::vector<unsigned> read(const unsigned *p, size_t n)
{
    std::vector<unsigned> v(n);
    CHECK(cudaMemcpy(v.data(), p, n * sizeof *p, cudaMemcpyDefault));
    return v;
}

static void work_on(int device, unsigned seed)
{
    const size_t n = 100003;
    unsigned *p = on(device, n);
    for (unsigned round = 0; round < 5; round++) {
        fill<<<32, 128>>>(p, n, seed + round);
        add<<<32, 128>>>(p, n, 5);
        CHECK(cudaGetLastError());
        TRUE(is_filled(read(p, n), seed + round + 5));
    }
    CHECK(cudaFree(p));
}

static void test_devices()
{
    for (int d = 0; d < devices; d++) {
        cudaDeviceProp prop;
        CHECK(cudaGetDeviceProperties(&prop, d));
        printf("device %d: ", d);
        for (char c : prop.uuid.bytes) printf("%02x", static_cast<unsigned char>(c));
        printf(" %s\n", prop.name);
        work_on(d, unsigned(d) * 1000);
    }
}

static void test_threads()
{
    std::vector<std::thread> all;
    for (int t = 0; t < 2 * devices; t++)
        all.emplace_back([t] { work_on(t % devices, unsigned(t) * 1000); });
    for (auto &t : all) t.join();
}

// Larger than a piece, and no multiple of one.
static const size_t kMany = (5 << 20) / 4 + 3;

static void test_copies()
{
    for (int from = 0; from < devices; from++)
        for (int to = 0; to < devices; to++) {
            if (from == to) continue;
            unsigned *a = on(from, kMany), *b = on(to, kMany);
            const unsigned seed = unsigned(from * 100 + to * 10);
            CHECK(cudaSetDevice(from));
            fill<<<32, 128>>>(a, kMany, seed);
            CHECK(cudaMemcpyPeer(b, to, a, from, kMany * 4));
            TRUE(is_filled(read(b, kMany), seed));
            fill<<<32, 128>>>(a, kMany, seed + 1);
            CHECK(cudaMemcpy(b, a, kMany * 4, cudaMemcpyDeviceToDevice));
            TRUE(is_filled(read(b, kMany), seed + 1));
            CHECK(cudaSetDevice((to + 1) % devices));  // neither's, or the source's
            CHECK(cudaMemset(a, 1, kMany * 4));
            CHECK(cudaMemcpy(b, a, kMany * 4, cudaMemcpyDefault));
            const auto v = read(b, kMany);
            TRUE(std::all_of(v.begin(), v.end(), [](unsigned x) { return x == 0x01010101; }));
            // A box within pitched memory.
            const size_t width = 300, height = 41, pa = 1024, pb = 512;
            CHECK(cudaSetDevice(from));
            fill<<<32, 128>>>(a, kMany, seed + 2);
            CHECK(cudaMemcpy2D(b, pb, a, pa, width * 1, height, cudaMemcpyDefault));
            const auto boxed = read(b, pb * height / 4);
            for (size_t y = 0; y < height; y++)
                for (size_t x = 0; x < width / 4; x++)
                    TRUE(boxed[y * pb / 4 + x] == seed + 2 + unsigned(y * pa / 4 + x) * 7);
            cudaMemcpy3DPeerParms p = {};
            p.srcDevice = from, p.dstDevice = to;
            p.srcPtr = make_cudaPitchedPtr(a, pa, width, height),
            p.dstPtr = make_cudaPitchedPtr(b, pb, width, height);
            p.extent = make_cudaExtent(width, height, 3);
            CHECK(cudaMemcpy3DPeer(&p));
            const auto deep = read(b, pb * height * 3 / 4);
            for (size_t z = 0; z < 3; z++)
                TRUE(deep[z * pb * height / 4 + pb / 4] ==
                     seed + 2 + unsigned(z * pa * height / 4 + pa / 4) * 7);
            // Through an array at the destination, at once and in a stream.
            cudaArray_t array;
            const cudaChannelFormatDesc words = cudaCreateChannelDesc<unsigned>();
            CHECK(cudaSetDevice(to));
            CHECK(cudaMallocArray(&array, &words, width / 4, height));
            CHECK(cudaSetDevice(from));
            for (cudaStream_t s : {cudaStreamLegacy, cudaStreamPerThread}) {
                fill<<<32, 128, 0, s>>>(a, kMany, seed + 3);
                CHECK(cudaStreamSynchronize(s));
                CHECK(cudaMemcpy2DToArrayAsync(array, 0, 0, a, pa, width, height, cudaMemcpyDefault,
                                               s));
                CHECK(cudaMemset2DAsync(a, pa, 0, width, height, s));
                CHECK(cudaMemcpy2DFromArrayAsync(a, pa, array, 0, 0, width, height,
                                                 cudaMemcpyDefault, s));
                CHECK(cudaStreamSynchronize(s));
                TRUE(is_filled(read(a, pa * height / 4), seed + 3));
            }
            CHECK(cudaFreeArray(array));
            CHECK(cudaFree(a));
            CHECK(cudaFree(b));
        }
}

// From device 0 through streams on all devices and back, with no wait of the program between.
static void test_order()
{
    std::vector<unsigned *> p;
    std::vector<cudaStream_t> s(devices);
    std::vector<cudaEvent_t> done(devices);
    for (int d = 0; d < devices; d++) {
        p.push_back(on(d, kMany));
        CHECK(cudaStreamCreateWithFlags(&s[d], cudaStreamNonBlocking));
        CHECK(cudaEventCreateWithFlags(&done[d], cudaEventDisableTiming));
    }
    unsigned *pinned;
    CHECK(cudaSetDevice(0));
    CHECK(cudaMallocHost(&pinned, kMany * 4));
    for (unsigned round = 0; round < 3; round++) {
        CHECK(cudaSetDevice(0));
        fill<<<32, 128, 0, s[0]>>>(p[0], kMany, round);
        const int order[] = {0, half, 1, half + 1};
        for (int i = 1; i < 4; i++) {
            const int from = order[i - 1], to = order[i];
            CHECK(cudaSetDevice(from));
            CHECK(cudaMemcpyPeerAsync(p[to], to, p[from], from, kMany * 4, s[from]));
            CHECK(cudaEventRecord(done[from], s[from]));
            CHECK(cudaSetDevice(to));
            CHECK(cudaStreamWaitEvent(s[to], done[from], 0));
            add<<<32, 128, 0, s[to]>>>(p[to], kMany, 10);
        }
        // Into the program's memory, in a stream of another server than the memory is of.
        CHECK(cudaEventRecord(done[half + 1], s[half + 1]));
        CHECK(cudaSetDevice(0));
        CHECK(cudaStreamWaitEvent(s[0], done[half + 1], 0));
        CHECK(cudaMemcpyAsync(pinned, p[half + 1], kMany * 4, cudaMemcpyDefault, s[0]));
        CHECK(cudaStreamSynchronize(s[0]));
        TRUE(is_filled(std::vector<unsigned>(pinned, pinned + kMany), round + 30));
    }
    CHECK(cudaFreeHost(pinned));
}

// A copy between two GPUs in the NULL stream comes behind all that either has, whichever is
// current: here a host function that lasts until somebody has waited for the copy in vain, or for a
// while.
static void test_null_stream()
{
    struct Gate {
        std::mutex mutex;
        std::condition_variable changed;
        bool open = false;
        void release()
        {
            std::lock_guard<std::mutex> lock(mutex);
            open = true;
            changed.notify_all();
        }
        static void pass(void *gate)
        {
            Gate &g = *static_cast<Gate *>(gate);
            std::unique_lock<std::mutex> lock(g.mutex);
            g.changed.wait(lock, [&] { return g.open; });
        }
    };
    const size_t n = 100003;
    const auto round = [&](int from, int to, int busy, int current, int how) {
        unsigned *a = on(from, n), *b = on(to, n);
        fill<<<32, 128>>>(b, n, 1);
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaSetDevice(from));
        fill<<<32, 128>>>(a, n, 2);
        CHECK(cudaDeviceSynchronize());
        Gate gate;
        cudaStream_t s;
        CHECK(cudaSetDevice(busy));
        CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
        CHECK(cudaLaunchHostFunc(s, Gate::pass, &gate));
        fill<<<32, 128, 0, s>>>(busy == from ? a : b, n, 3);
        std::thread opens([&] {
            std::unique_lock<std::mutex> lock(gate.mutex);
            gate.changed.wait_for(lock, std::chrono::milliseconds(250), [&] { return gate.open; });
            gate.open = true;
            gate.changed.notify_all();
        });
        CHECK(cudaSetDevice(current));
        if (how == 0)
            CHECK(cudaMemcpyPeerAsync(b, to, a, from, n * 4, nullptr));
        else if (how == 1)
            CHECK(cudaMemcpyAsync(b, a, n * 4, cudaMemcpyDefault, nullptr));
        else
            CHECK(cudaMemcpy(b, a, n * 4, cudaMemcpyDefault));
        CHECK(cudaStreamSynchronize(nullptr));
        const auto at_once = read(b, n);
        gate.release();
        opens.join();
        for (int d : {from, to}) {
            CHECK(cudaSetDevice(d));
            CHECK(cudaDeviceSynchronize());
        }
        TRUE(is_filled(at_once, busy == from ? 3 : 2));
        TRUE(is_filled(read(b, n), busy == from ? 3 : 2));
        CHECK(cudaStreamDestroy(s));
        CHECK(cudaFree(a));
        CHECK(cudaFree(b));
    };
    round(0, half, 0, half, 0);  // the source is busy, the destination current
    round(0, half, 0, 1, 1);     // neither is current
    round(half, 0, 0, half, 1);  // the destination is busy
    round(0, 1, 0, half, 0);     // both are another server's than the current one
    round(0, half, 0, half, 2);
}

// Events that are recorded again while others still wait for what they were: what is waited for is
// the record before.
static void test_events()
{
    const int a = 0, b = half;
    unsigned *pa = on(a, 1), *pb = on(b, 1);
    cudaStream_t sa, sb;
    cudaEvent_t ea, eb;
    CHECK(cudaSetDevice(a));
    CHECK(cudaStreamCreate(&sa));
    CHECK(cudaEventCreate(&ea));
    CHECK(cudaMemset(pa, 0, 4));
    CHECK(cudaSetDevice(b));
    CHECK(cudaStreamCreate(&sb));
    CHECK(cudaEventCreate(&eb));
    const unsigned rounds = 40;
    for (unsigned i = 0; i < rounds; i++) {
        CHECK(cudaSetDevice(a));
        add<<<1, 1, 0, sa>>>(pa, 1, 1);
        CHECK(cudaMemcpyPeerAsync(pb, b, pa, a, 4, sa));
        CHECK(cudaEventRecord(ea, sa));
        CHECK(cudaSetDevice(b));
        CHECK(cudaStreamWaitEvent(sb, ea, 0));
        add<<<1, 1, 0, sb>>>(pb, 1, 1);
        CHECK(cudaMemcpyPeerAsync(pa, a, pb, b, 4, sb));
        CHECK(cudaEventRecord(eb, sb));
        CHECK(cudaSetDevice(a));
        CHECK(cudaStreamWaitEvent(sa, eb, 0));
    }
    CHECK(cudaStreamSynchronize(sa));
    TRUE(read(pa, 1)[0] == 2 * rounds);
    CHECK(cudaEventSynchronize(eb));  // b's, from a
    TRUE(cudaEventQuery(eb) == cudaSuccess);
    float ms;
    TRUE(cudaEventElapsedTime(&ms, ea, eb) == cudaErrorInvalidResourceHandle);
    TRUE(cudaEventRecord(eb, sa) == cudaErrorInvalidResourceHandle);
    CHECK(cudaEventElapsedTime(&ms, ea, ea));
}

// What names its object may be called with any device current.
static void test_foreign()
{
    const size_t n = 1000;
    unsigned *p = on(half, n);
    cudaStream_t s;
    cudaEvent_t e;
    CHECK(cudaStreamCreate(&s));
    CHECK(cudaEventCreate(&e));
    fill<<<8, 64, 0, s>>>(p, n, 3);
    CHECK(cudaEventRecord(e, s));
    CHECK(cudaSetDevice(0));
    CHECK(cudaStreamSynchronize(s));
    CHECK(cudaEventSynchronize(e));
    TRUE(is_filled(read(p, n), 3));
    cudaPointerAttributes at;
    CHECK(cudaPointerGetAttributes(&at, p));
    TRUE(at.type == cudaMemoryTypeDevice && at.device == half);
    std::vector<unsigned> v(n, 9);
    CHECK(cudaMemcpy(p, v.data(), n * 4, cudaMemcpyHostToDevice));
    TRUE(read(p, n) == v);
    // Sets and copies in a stream of this server, of the other's memory.
    cudaStream_t mine;
    CHECK(cudaStreamCreate(&mine));
    CHECK(cudaMemsetAsync(p, 2, n * 4, mine));
    CHECK(cudaMemcpyAsync(v.data(), p, n * 4, cudaMemcpyDeviceToHost, mine));
    CHECK(cudaStreamSynchronize(mine));
    TRUE(std::all_of(v.begin(), v.end(), [](unsigned x) { return x == 0x02020202; }));
    CHECK(cudaEventDestroy(e));
    CHECK(cudaStreamDestroy(s));
    CHECK(cudaFreeAsync(p, mine));
    CHECK(cudaStreamSynchronize(mine));
    TRUE(cudaFree(p) == cudaErrorInvalidValue);
    int device;
    CHECK(cudaGetDevice(&device));
    TRUE(device == 0);
}

// Equal drivers would give equal addresses: an address is one server's all the same.
static void test_space()
{
    struct Piece {
        char *at;
        size_t bytes;
        int device;
    };
    std::vector<Piece> all;
    const size_t sizes[] = {512, 100, 4096, 3 << 20, 70000, 512, 9 << 20, 1 << 20};
    const auto take = [&](int d, size_t bytes) {
        Piece piece{nullptr, bytes, d};
        CHECK(cudaSetDevice(d));
        CHECK(cudaMalloc(&piece.at, bytes));
        CHECK(cudaMemset(piece.at, d + 1, bytes));
        all.push_back(piece);
    };
    for (int round = 0; round < 3; round++) {
        for (size_t bytes : sizes)
            for (int d = 0; d < devices; d++) take((d + round) % devices, bytes);
        // Every third goes, so that there are holes to fall into.
        for (size_t i = 0; i < all.size(); i += 2) {
            CHECK(cudaFree(all[i].at));
            all.erase(all.begin() + static_cast<long>(i));
        }
    }
    std::sort(all.begin(), all.end(), [](const Piece &a, const Piece &b) { return a.at < b.at; });
    for (size_t i = 1; i < all.size(); i++) TRUE(all[i - 1].at + all[i - 1].bytes <= all[i].at);
    for (const Piece &p : all) {
        cudaPointerAttributes at;
        CHECK(cudaPointerGetAttributes(&at, p.at));
        TRUE(at.device == p.device);
        std::vector<char> v(p.bytes);
        CHECK(cudaMemcpy(v.data(), p.at, p.bytes, cudaMemcpyDefault));
        TRUE(std::all_of(v.begin(), v.end(), [&](char c) { return c == p.device + 1; }));
        CHECK(cudaFree(p.at));
    }
    printf("%zu pieces, none upon another\n", all.size());
}

// The same from several threads: two servers may give one address at one moment.
static void test_race()
{
    std::mutex mutex;
    std::map<char *, size_t> live;
    std::vector<std::thread> all;
    std::atomic<int> missing{2 * devices};
    for (int t = 0; t < 2 * devices; t++)
        all.emplace_back([&, t] {
            CHECK(cudaSetDevice(t % devices));
            CHECK(cudaFree(nullptr));
            missing--;
            while (missing) {}  // all at once
            for (unsigned i = 0; i < 40; i++) {
                char *p;
                const size_t bytes = size_t{1} << (8 + (t + i * 5) % 15);
                CHECK(cudaMalloc(&p, bytes));
                {
                    std::lock_guard<std::mutex> lock(mutex);
                    const auto next = live.lower_bound(p + bytes);
                    TRUE(next == live.begin() ||
                         std::prev(next)->first + std::prev(next)->second <= p);
                    live[p] = bytes;
                }
                if (i % 4 == 3) continue;
                {
                    std::lock_guard<std::mutex> lock(mutex);
                    live.erase(p);
                }
                CHECK(cudaFree(p));
            }
        });
    for (auto &t : all) t.join();
    for (auto &[p, bytes] : live) CHECK(cudaFree(p));
}

// Where the first memory of each device is, for a comparison.
static void test_first()
{
    for (int d = 0; d < devices; d++) printf("%p\n", static_cast<void *>(on(d, 1000)));
}

static void test_variables()
{
    for (int d = 0; d < devices; d++) {
        CHECK(cudaSetDevice(d));
        const unsigned v = 100u + unsigned(d);
        CHECK(cudaMemcpyToSymbol(d_here, &v, sizeof v));
    }
    for (int d = 0; d < devices; d++) {
        unsigned *p = on(d, 1), v;
        add_here<<<1, 1>>>(p);
        TRUE(read(p, 1)[0] == 101u + unsigned(d));
        CHECK(cudaMemcpyFromSymbol(&v, d_here, sizeof v));
        TRUE(v == 100u + unsigned(d));
    }
}

__global__ void say(int device) { printf("kernel on device %d\n", device); }

// Host functions, printing kernels, mapped and managed memory: of each server.
static void test_host()
{
    struct Memory {
        unsigned *mapped, *managed, *there;
    };
    std::vector<Memory> of(devices);
    for (int d = 0; d < devices; d++) {
        CHECK(cudaSetDevice(d));
        CHECK(cudaHostAlloc(&of[d].mapped, 4096, cudaHostAllocMapped));
        CHECK(cudaMallocManaged(&of[d].managed, 4096));
        CHECK(cudaHostGetDevicePointer(&of[d].there, of[d].mapped, 0));
        *of[d].mapped = 5, *of[d].managed = 6;
    }
    for (int d = 0; d < devices; d++) {
        const Memory &m = of[d];
        CHECK(cudaSetDevice(d));
        add<<<1, 1>>>(m.there, 1, unsigned(d));
        add<<<1, 1>>>(m.managed, 1, unsigned(d));
        int called = -1;
        struct Call {
            int *called, device;
        } call{&called, d};
        CHECK(cudaLaunchHostFunc(
            nullptr,
            [](void *p) {
                auto c = static_cast<Call *>(p);
                *c->called = c->device;
            },
            &call));
        say<<<1, 1>>>(d);
        CHECK(cudaDeviceSynchronize());
        TRUE(*m.mapped == 5u + unsigned(d) && *m.managed == 6u + unsigned(d) && called == d);
        // The other server's devices know these as the program's memory: for copies.
        unsigned *p = on((d + half) % devices, 1024);
        CHECK(cudaMemcpy(p, m.mapped, 4096, cudaMemcpyDefault));
        TRUE(read(p, 1)[0] == 5u + unsigned(d));
        CHECK(cudaMemcpy(p, m.managed, 4096, cudaMemcpyDefault));
        TRUE(read(p, 1)[0] == 6u + unsigned(d));
        fill<<<1, 64>>>(p, 1024, 50);
        CHECK(cudaMemcpy(m.mapped, p, 4096, cudaMemcpyDefault));
        TRUE(is_filled(std::vector<unsigned>(m.mapped, m.mapped + 1024), 50));
        CHECK(cudaFree(p));
    }
    for (const Memory &m : of) {
        CHECK(cudaFreeHost(m.mapped));
        CHECK(cudaFree(m.managed));
    }
}

// Memory of the program that kernels of both servers write, through the mirror that each has.
static void test_registered()
{
    std::vector<unsigned> memory(3000);
    CHECK(cudaSetDevice(0));
    CHECK(cudaHostRegister(memory.data(), memory.size() * 4,
                           cudaHostRegisterMapped | cudaHostRegisterPortable));
    for (int d : {0, half, 1, half + 1}) {
        CHECK(cudaSetDevice(d));
        unsigned *there;
        CHECK(cudaHostGetDevicePointer(&there, memory.data(), 0));
        fill<<<8, 64>>>(there, memory.size(), unsigned(d));
        CHECK(cudaDeviceSynchronize());
        TRUE(is_filled(memory, unsigned(d)));
    }
    CHECK(cudaHostUnregister(memory.data()));
}

static void test_refused()
{
    int can = 1;
    CHECK(cudaDeviceCanAccessPeer(&can, 0, half));
    TRUE(!can);
    CHECK(cudaDeviceCanAccessPeer(&can, half, 0));
    TRUE(!can);
    CHECK(cudaDeviceGetP2PAttribute(&can, cudaDevP2PAttrAccessSupported, 0, half));
    TRUE(!can);
    CHECK(cudaSetDevice(half));
    CHECK(cudaFree(nullptr));
    CHECK(cudaSetDevice(0));
    CHECK(cudaFree(nullptr));
    CUcontext other;
    TRUE(cuDevicePrimaryCtxRetain(&other, half) == CUDA_SUCCESS);
    TRUE(cuCtxEnablePeerAccess(other, 0) == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    TRUE(cuCtxDisablePeerAccess(other) == CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    // Managed memory of one server in a kernel of the other.
    unsigned *managed;
    CHECK(cudaMallocManaged(&managed, 4096));
    CHECK(cudaSetDevice(half));
    add<<<1, 1>>>(managed, 1, 1);
    TRUE(cudaGetLastError() == cudaErrorNotSupported);
    // A value in the other's memory.
    unsigned *far = on(half, 1);
    CHECK(cudaSetDevice(0));
    TRUE(cuStreamWriteValue32(nullptr, reinterpret_cast<CUdeviceptr>(far), 1, 0) ==
         CUDA_ERROR_NOT_SUPPORTED);
    // What leaves its allocation, at either end, is told at the call.
    cudaStream_t far_stream;
    CHECK(cudaSetDevice(half));
    CHECK(cudaStreamCreate(&far_stream));
    CHECK(cudaSetDevice(0));
    unsigned *large = on(0, 2000000), *small = on(half, 1000000);
    for (cudaStream_t in : {static_cast<cudaStream_t>(nullptr), far_stream}) {
        TRUE(cudaMemcpyPeerAsync(small, half, large, 0, 4100000, in) == cudaErrorInvalidValue);
        TRUE(cudaMemcpyAsync(large, small, 4100000, cudaMemcpyDefault, in) ==
             cudaErrorInvalidValue);
        TRUE(cudaMemcpyAsync(large + 1999999, small, 8, cudaMemcpyDefault, in) ==
             cudaErrorInvalidValue);
        TRUE(cudaMemcpy2DAsync(large, 4096, small, 4096, 4000, 1000, cudaMemcpyDefault, in) ==
             cudaErrorInvalidValue);
        CHECK(cudaMemcpy2DAsync(large, 4096, small, 4000, 4000, 1000, cudaMemcpyDefault, in));
        CHECK(cudaStreamSynchronize(in));
    }
    TRUE(cudaMemcpy(small, large, 4100000, cudaMemcpyDefault) == cudaErrorInvalidValue);
    TRUE(cudaMemset(small, 0, 4100000) == cudaErrorInvalidValue);
    TRUE(cudaMemsetAsync(small, 0, 4100000, nullptr) == cudaErrorInvalidValue);
    cudaGetLastError();
    CHECK(cudaDeviceSynchronize());
    // One graph of both.
    unsigned *a = on(0, 100), *b = on(half, 100);
    cudaStream_t s;
    cudaEvent_t e;
    CHECK(cudaStreamCreate(&s));
    CHECK(cudaSetDevice(0));
    CHECK(cudaEventCreate(&e));
    fill<<<1, 1>>>(a, 100, 1);
    CHECK(cudaEventRecord(e, 0));
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    TRUE(cudaMemcpyAsync(b, a, 400, cudaMemcpyDefault, s) == cudaErrorStreamCaptureUnsupported);
    cudaGraph_t graph;
    TRUE(cudaStreamEndCapture(s, &graph) == cudaErrorStreamCaptureInvalidated);
    // A capture that would go on in the other server's stream.
    cudaStream_t near;
    CHECK(cudaStreamCreate(&near));
    CHECK(cudaStreamBeginCapture(near, cudaStreamCaptureModeRelaxed));
    fill<<<1, 1, 0, near>>>(a, 100, 1);
    CHECK(cudaEventRecord(e, near));
    TRUE(cudaStreamWaitEvent(far_stream, e, 0) == cudaErrorStreamCaptureUnsupported);
    cudaStreamCaptureStatus capturing;
    CHECK(cudaStreamIsCapturing(far_stream, &capturing));
    TRUE(capturing == cudaStreamCaptureStatusNone);
    CHECK(cudaStreamIsCapturing(near, &capturing));
    TRUE(capturing == cudaStreamCaptureStatusInvalidated);
    TRUE(cudaStreamEndCapture(near, &graph) == cudaErrorStreamCaptureInvalidated);
    // A graph of one in the other's streams; in its own it goes on.
    cudaGraphExec_t exec;
    cudaGetLastError();
    CHECK(cudaStreamBeginCapture(near, cudaStreamCaptureModeRelaxed));
    fill<<<1, 64, 0, near>>>(a, 100, 17);
    CHECK(cudaStreamEndCapture(near, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    TRUE(cudaGraphLaunch(exec, far_stream) == cudaErrorNotSupported);
    CHECK(cudaSetDevice(half));
    TRUE(cudaGraphLaunch(exec, nullptr) == cudaErrorNotSupported);
    CHECK(cudaGraphLaunch(exec, near));
    CHECK(cudaStreamSynchronize(near));
    TRUE(is_filled(read(a, 100), 17));
    CHECK(cudaSetDevice(0));
    cudaGetLastError();
    CHECK(cudaDeviceSynchronize());
    work_on(half, 1);
    work_on(0, 1);
}

static std::mutex gate, copies_gate;

// The second server goes while a stream of the first waits for its event, and a copy between the
// two for another's.
static void test_lost()
{
    unsigned *a = on(0, kMany), *b = on(half, kMany);
    cudaStream_t sa, copies, sb;
    cudaEvent_t never;
    CHECK(cudaStreamCreateWithFlags(&sb, cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&never));
    gate.lock();
    CHECK(cudaLaunchHostFunc(
        sb, [](void *) { std::lock_guard<std::mutex> through(gate); }, nullptr));
    CHECK(cudaEventRecord(never, sb));
    CHECK(cudaSetDevice(0));
    CHECK(cudaStreamCreateWithFlags(&sa, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&copies, cudaStreamNonBlocking));
    fill<<<1, 64, 0, sa>>>(a, 1000, 1);
    CHECK(cudaStreamWaitEvent(sa, never, 0));
    add<<<1, 64, 0, sa>>>(a, 1000, 1);
    TRUE(cudaStreamQuery(sa) == cudaErrorNotReady);
    copies_gate.lock();
    CHECK(cudaLaunchHostFunc(
        copies, [](void *) { std::lock_guard<std::mutex> through(copies_gate); }, nullptr));
    CHECK(cudaMemcpyPeerAsync(a, 0, b, half, 4096, copies));
    printf("waiting\n");
    getchar();
    CHECK(cudaStreamSynchronize(sa));
    TRUE(is_filled(read(a, 1000), 2));
    unsigned v;
    TRUE(cudaMemcpy(&v, b, 4, cudaMemcpyDefault) == cudaErrorExternalDevice);
    TRUE(cudaMemcpyPeer(a, 0, b, half, 4) == cudaErrorExternalDevice);
    TRUE(cudaMemcpyPeerAsync(a, 0, b, half, 4, sa) == cudaErrorExternalDevice);
    // One that was given before fails its stream, and what waits for that, for as long as there is
    // the stream.
    copies_gate.unlock();
    TRUE(cudaStreamSynchronize(copies) == cudaErrorExternalDevice);
    TRUE(cudaStreamQuery(copies) == cudaErrorExternalDevice);
    TRUE(cudaDeviceSynchronize() == cudaErrorExternalDevice);
    CHECK(cudaStreamSynchronize(sa));
    CHECK(cudaStreamDestroy(copies));
    CHECK(cudaDeviceSynchronize());
    cudaGetLastError();
    work_on(1, 5);
    CHECK(cudaSetDevice(half));
    TRUE(cudaMalloc(&b, 4) == cudaErrorExternalDevice);
    TRUE(cudaDeviceSynchronize() == cudaErrorExternalDevice);
    cudaGetLastError();
    work_on(0, 7);
    gate.unlock();
}

static void test_vmm()
{
    for (int d : {0, half, 1, half + 1}) {
        CHECK(cudaSetDevice(d));
        CHECK(cudaFree(nullptr));
        CUmemAllocationProp p = {};
        p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        p.location = {CU_MEM_LOCATION_TYPE_DEVICE, d};
        size_t bytes;
        CUdeviceptr at;
        CUmemGenericAllocationHandle memory;
        TRUE(cuMemGetAllocationGranularity(&bytes, &p, CU_MEM_ALLOC_GRANULARITY_MINIMUM) ==
             CUDA_SUCCESS);
        TRUE(cuMemCreate(&memory, bytes, &p, 0) == CUDA_SUCCESS);
        TRUE(cuMemAddressReserve(&at, bytes, 0, 0, 0) == CUDA_SUCCESS);
        TRUE(cuMemMap(at, bytes, 0, memory, 0) == CUDA_SUCCESS);
        CUmemAccessDesc access = {p.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        TRUE(cuMemSetAccess(at, bytes, &access, 1) == CUDA_SUCCESS);
        CUmemAllocationProp is;
        TRUE(cuMemGetAllocationPropertiesFromHandle(&is, memory) == CUDA_SUCCESS &&
             is.location.id == d);
        fill<<<8, 64>>>(reinterpret_cast<unsigned *>(at), bytes / 4, unsigned(d));
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaSetDevice(0));
        TRUE(is_filled(read(reinterpret_cast<unsigned *>(at), bytes / 4), unsigned(d)));
        CUdevice owner;
        TRUE(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at) ==
                 CUDA_SUCCESS &&
             owner == d);
        TRUE(cuMemUnmap(at, bytes) == CUDA_SUCCESS);
        TRUE(cuMemAddressFree(at, bytes) == CUDA_SUCCESS);
        TRUE(cuMemRelease(memory) == CUDA_SUCCESS);
        // A pool's properties name a device, too.
        CHECK(cudaSetDevice(d));
        cudaMemPool_t pool;
        cudaMemPoolProps props = {};
        props.allocType = cudaMemAllocationTypePinned;
        props.location = {cudaMemLocationTypeDevice, d};
        unsigned *q;
        CHECK(cudaMemPoolCreate(&pool, &props));
        CHECK(cudaMallocFromPoolAsync(&q, 4000, pool, nullptr));
        fill<<<1, 64>>>(q, 1000, 8);
        TRUE(is_filled(read(q, 1000), 8));
        CHECK(cudaFreeAsync(q, nullptr));
        CHECK(cudaMemPoolDestroy(pool));
    }
}

struct Case {
    const char *name;
    void (*run)();
};
static const Case cases[] = {{"devices", test_devices},
                             {"threads", test_threads},
                             {"copies", test_copies},
                             {"order", test_order},
                             {"null_stream", test_null_stream},
                             {"events", test_events},
                             {"foreign", test_foreign},
                             {"space", test_space},
                             {"race", test_race},
                             {"variables", test_variables},
                             {"host", test_host},
                             {"registered", test_registered},
                             {"refused", test_refused},
                             {"vmm", test_vmm}};
// When they are named only.
static const Case others[] = {{"first", test_first}, {"lost", test_lost}};

int main(int argc, char **argv)
{
    setvbuf(stdout, nullptr, _IOLBF, 0);
    const std::string wanted = argc > 1 ? argv[1] : "";
    CHECK(cudaGetDeviceCount(&devices));
    half = devices / 2;
    for (auto &c : others)
        if (c.name == wanted) c.run();
    for (auto &c : cases)
        if (wanted.empty() || c.name == wanted) {
            if (half < 2) return fprintf(stderr, "needs four GPUs\n"), 77;
            c.run();
        }
    return 0;
}
