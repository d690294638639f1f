// SPDX-License-Identifier: Apache-2.0
// The measuring itself: the driver through dlopen, as programs that choose it at run time do.
#include <cuda.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "cli/parts/link.h"
#include "net/transport/socket.h"

namespace rgpu::cli {
namespace {

using Clock = std::chrono::steady_clock;

double microseconds_of(auto &&work)
{
    const auto start = Clock::now();
    work();
    return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

constexpr int kCalls = 2000, kFewest = 20, kPosts = 20'000;
constexpr size_t kSizes[] = {4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20};
constexpr double kFor = 1e6,
                 kCopyFor = 0.3e6;  // microseconds for calls; for each size and direction

// One object of the driver's, and the first call that failed.
class MeasuredDriver {
public:
    Result<void> open()
    {
        void *library =
            dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);  // never closed: a driver has threads
        if (!library) return error(ErrorKind::unavailable, "no CUDA driver: %s", dlerror());
        for (auto [name, to] : std::initializer_list<std::pair<const char *, void *>>{
                 {"cuInit", &init_},
                 {"cuDeviceGetName", &name_},
                 {"cuDevicePrimaryCtxRetain", &retain_},
                 {"cuCtxSetCurrent", &set_current_},
                 {"cuMemAlloc_v2", &alloc_},
                 {"cuMemHostAlloc", &host_alloc_},
                 {"cuMemcpyHtoD_v2", &to_gpu_},
                 {"cuMemcpyDtoH_v2", &from_gpu_},
                 {"cuMemsetD32Async", &set_},
                 {"cuCtxSynchronize", &synchronize_}}) {
            void *symbol = dlsym(library, name);
            if (!symbol) return error(ErrorKind::unavailable, "this CUDA driver has no %s", name);
            memcpy(to, &symbol, sizeof symbol);
        }
        CUcontext context = nullptr;
        char name[256] = "";
        check("cuInit", init_(0));
        check("cuDeviceGetName", failed_ ? CUDA_SUCCESS : name_(name, sizeof name, 0));
        check("cuDevicePrimaryCtxRetain", failed_ ? CUDA_SUCCESS : retain_(&context, 0));
        check("cuCtxSetCurrent", failed_ ? CUDA_SUCCESS : set_current_(context));
        this->name = name;
        return result();
    }
    // Both sides of all copies; smaller than `most` where the GPU has not so much.
    Result<size_t> allocate(size_t most)
    {
        while (most > kSizes[0] && alloc_(&there_, most) == CUDA_ERROR_OUT_OF_MEMORY) most /= 2;
        check("cuMemAlloc", there_ ? CUDA_SUCCESS : alloc_(&there_, most));
        check("cuMemHostAlloc", failed_ ? CUDA_SUCCESS : host_alloc_(&here_, most, 0));
        if (Result<void> r = result(); !r) return std::move(r).error();
        // Bytes that do not shrink: what is measured is the link.
        std::mt19937_64 dice(1);
        std::generate_n(static_cast<uint64_t *>(here_), most / sizeof(uint64_t), dice);
        return most;
    }
    void to_gpu(size_t bytes) { check("cuMemcpyHtoD", to_gpu_(there_, here_, bytes)); }
    void from_gpu(size_t bytes) { check("cuMemcpyDtoH", from_gpu_(here_, there_, bytes)); }
    void post() { check("cuMemsetD32Async", set_(there_, 1, 1, nullptr)); }
    void synchronize() { check("cuCtxSynchronize", synchronize_()); }

    Result<void> result() const
    {
        if (!failed_) return {};
        return error(ErrorKind::unavailable, "%s: CUDA error %d", failed_, status_);
    }

    std::string name;

private:
    void check(const char *call, CUresult status)
    {
        if (status && !failed_) failed_ = call, status_ = status;
    }

    decltype(&::cuInit) init_ = nullptr;
    decltype(&::cuDeviceGetName) name_ = nullptr;
    decltype(&::cuDevicePrimaryCtxRetain) retain_ = nullptr;
    decltype(&::cuCtxSetCurrent) set_current_ = nullptr;
    decltype(&::cuMemAlloc) alloc_ = nullptr;
    decltype(&::cuMemHostAlloc) host_alloc_ = nullptr;
    decltype(&::cuMemcpyHtoD) to_gpu_ = nullptr;
    decltype(&::cuMemcpyDtoH) from_gpu_ = nullptr;
    decltype(&::cuMemsetD32Async) set_ = nullptr;
    decltype(&::cuCtxSynchronize) synchronize_ = nullptr;
    CUdeviceptr there_ = 0;
    void *here_ = nullptr;
    const char *failed_ = nullptr;
    int status_ = 0;
};

// The median for a while, at least three times, in GB/s.
double rate(size_t bytes, auto &&copy)
{
    std::vector<double> took;
    double sum = 0;
    copy();
    while (took.size() < 3 || (sum < kCopyFor && took.size() < kCalls))
        sum += took.emplace_back(microseconds_of(copy));
    return static_cast<double>(bytes) / latency_of(std::move(took)).p50 / 1e3;
}

// Small copies to the GPU return before they are there: as many as make a megabyte, and a wait for
// all.
double rate_to(MeasuredDriver &gpu, size_t bytes)
{
    const size_t times = std::max<size_t>(1, kSizes[2] / bytes);
    return rate(times * bytes, [&] {
        for (size_t i = 0; i < times; ++i) gpu.to_gpu(bytes);
        gpu.synchronize();
    });
}

}  // namespace

Result<Link> measure_link(void (*tell)(const char *))
{
    MeasuredDriver gpu;
    if (Result<void> r = gpu.open(); !r) return std::move(r).error();
    Result<size_t> most = gpu.allocate(kSizes[std::size(kSizes) - 1]);
    if (!most) return std::move(most).error();
    Link link;
    link.gpu = gpu.name;

    tell("calls that wait");
    // On a long link fewer.
    std::vector<double> calls;
    double sum = 0;
    while (calls.size() < kFewest || (calls.size() < kCalls && sum < kFor))
        sum += calls.emplace_back(microseconds_of([&] { gpu.from_gpu(4); }));
    link.call = latency_of(std::move(calls));

    tell("calls that do not");
    gpu.synchronize();
    std::vector<double> posts;
    for (int i = 0; i < kPosts; ++i) posts.push_back(microseconds_of([&] { gpu.post(); }));
    gpu.synchronize();
    link.post = latency_of(std::move(posts)).p50;

    tell("copies");
    for (size_t bytes : kSizes) {
        // What would take seconds on a slow link tells nothing that a smaller copy has not told.
        const Bandwidth *last = link.bandwidth.empty() ? nullptr : &link.bandwidth.back();
        if (bytes > *most ||
            (last &&
             static_cast<double>(bytes) / std::min(last->to_gpu, last->from_gpu) / 1e3 > kFor))
            break;
        link.bandwidth.push_back(
            {bytes, rate_to(gpu, bytes), rate(bytes, [&] { gpu.from_gpu(bytes); })});
    }
    if (Result<void> r = gpu.result(); !r) return std::move(r).error();
    return link;
}

Result<Latency> measure_tcp(const std::string &address, Milliseconds timeout, int connects)
{
    std::vector<double> took;
    for (int i = 0; i < connects; ++i) {
        Result<Fd> connected = Fd();
        took.push_back(microseconds_of(
            [&] { connected = net::connect(address, net::Clock::now() + timeout); }));
        if (!connected) return std::move(connected).error();
    }
    return latency_of(std::move(took));
}

}  // namespace rgpu::cli
