// Counting, and what the driver tells.
#include "serverd/worker/memory_cap.h"

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "serverd/worker/device_meter.h"
#include "serverd/worker/file_lock.h"
#include "util/units.h"

namespace rgpu::worker {

#define REAL(name) (real.call<CallId::name>())

// A GPU among all capped workers of the host. Who holds it for too long is not waited for.
class HostLock {
public:
    HostLock(MemoryCap &cap, int device, short type) : cap_(cap), byte_(cap.host_index_[static_cast<size_t>(device)])
    {
        constexpr int kTries = 5000;
        const timespec pause{0, 1'000'000};
        for (int i = 0; i < kTries && lock_byte(cap_.host_locks_.get(), F_OFD_SETLK, byte_, type) < 0; i++)
            nanosleep(&pause, nullptr);
    }
    ~HostLock() { lock_byte(cap_.host_locks_.get(), F_OFD_SETLK, byte_, F_UNLCK); }

private:
    MemoryCap &cap_;
    off_t byte_;
};

MemoryCap::MemoryCap(const Driver &d, MemoryAccount account, Fd host_locks, std::vector<int> host_index)
    : graphs(host_index.size()), contexts(host_index.size()), real(d), is_software(real.symbol(kSoftwareMark)), account_(std::move(account)),
      host_locks_(std::move(host_locks)), host_index_(std::move(host_index))
{
}

int MemoryCap::current_device() const
{
    CUdevice d = -1;
    return REAL(cuCtxGetDevice)(&d) ? -1 : d;
}

// Bytes of the device that anybody uses; unknown without a context on it where nothing else tells.
std::optional<uint64_t> MemoryCap::in_use(int device)
{
    size_t free = 0, total = 0;
    if (current_device() == device)
        return REAL(cuMemGetInfo_v2)(&free, &total) ? std::nullopt : std::optional<uint64_t>(total - free);
    for (CUcontext context : contexts[static_cast<size_t>(device)]) {
        CUcontext popped = nullptr;
        if (REAL(cuCtxPushCurrent_v2)(context)) continue;
        CUresult r = REAL(cuMemGetInfo_v2)(&free, &total);
        REAL(cuCtxPopCurrent_v2)(&popped);
        if (!r) return total - free;
    }
    return device_memory_in_use(real, device);
}

// Where nothing told what the first context of this device cost: as much as another one does.
uint64_t MemoryCap::cost_of_another_context(int device)
{
    auto before = in_use(device);
    CUcontext probe = nullptr, popped = nullptr;
    if (!before || !REAL(cuCtxCreate_v2) || REAL(cuCtxCreate_v2)(&probe, 0, device)) return 0;
    REAL(cuCtxPopCurrent_v2)(&popped);
    auto after = in_use(device);
    REAL(cuCtxDestroy_v2)(probe);
    return after && *after > *before ? *after - *before : 0;
}

CUresult MemoryCap::measured(int device, const Call &call, const Call &undo)
{
    if (device < 0) return call();
    const auto d = static_cast<size_t>(device);
    HostLock lock(*this, device, F_WRLCK);
    auto before = in_use(device);
    if (CUresult r = call()) return r;
    auto after = in_use(device);
    uint64_t cost = 0;
    if (before && after && *after < *before) {
        account_.give(d, *before - *after);
        return CUDA_SUCCESS;
    }
    if (after) cost = before ? *after - *before : cost_of_another_context(device);
    if (!cost || account_.take(d, cost)) return CUDA_SUCCESS;
    refresh(device);
    if (account_.take(d, cost)) return CUDA_SUCCESS;
    if (undo && undo() == CUDA_SUCCESS) return CUDA_ERROR_OUT_OF_MEMORY;
    account_.take_anyway(d, cost);
    return CUDA_SUCCESS;
}

CUresult MemoryCap::sized(int device, uint64_t bytes, uint64_t &counted, const Call &call)
{
    if (device < 0) return call();
    const auto d = static_cast<size_t>(device);
    if (bytes > account_.cap(d)) return CUDA_ERROR_OUT_OF_MEMORY;
    counted = bytes > kSharesPages ? (bytes + kMemoryPage - 1) / kMemoryPage * kMemoryPage : (bytes + 511) / 512 * 512;
    HostLock lock(*this, device, F_RDLCK);
    if (!account_.take(d, counted)) {
        refresh(device);
        if (!account_.take(d, counted)) return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult r = call();
    if (r) account_.give(d, counted);
    return r;
}

void MemoryCap::refresh(int device)
{
    const auto d = static_cast<size_t>(device);
    auto settle = [&](uint64_t &counted, uint64_t now) {
        if (now > counted) account_.take_anyway(d, now - counted);
        if (now < counted) account_.give(d, counted - now);
        counted = now;
    };
    cuuint64_t now = 0;
    for (auto &[pool, state] : pools)
        if (state.device == device && !REAL(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &now))
            settle(state.counted, now);
    auto graph_memory = REAL(cuDeviceGetGraphMemAttribute);
    if (has_graph_memory && graph_memory && !graph_memory(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &now))
        settle(graphs[d], now);
}

uint64_t MemoryCap::left(int device)
{
    refresh(device);
    const uint64_t used = account_.used(static_cast<size_t>(device)), cap = this->cap(device);
    return used < cap ? cap - used : 0;
}

void MemoryCap::forget_context(int device, CUcontext context)
{
    const auto d = static_cast<size_t>(device);
    contexts[d].erase(context);
    launched.clear();
    if (!contexts[d].empty()) return;
    // Virtual memory belongs to no context.
    uint64_t kept = 0;
    for (const auto &[handle, p] : physical)
        if (p.held.device == device) kept += p.held.bytes;
    account_.give(d, UINT64_MAX);
    account_.take_anyway(d, kept);
    std::erase_if(held, [&](const auto &h) { return h.second.device == device; });
    std::erase_if(pooled, [&](const auto &p) { return p.second.second.device == device; });
    for (auto &[pool, state] : pools)
        if (state.device == device) state.counted = 0;
    graphs[d] = 0;
    refresh(device);
}

namespace {

// "a,b,c" in the environment, as numbers.
Result<std::vector<uint64_t>> list(const char *name)
{
    const char *text = getenv(name);
    std::vector<uint64_t> numbers;
    for (std::string rest = text ? text : ""; !rest.empty();) {
        size_t comma = std::min(rest.find(','), rest.size());
        auto number = parse_integer(rest.substr(0, comma), 0, INT64_MAX);
        if (!number) return std::move(number).error().in(name);
        numbers.push_back(static_cast<uint64_t>(*number));
        rest.erase(0, comma + 1);
    }
    return numbers;
}

}  // namespace

namespace {
MemoryCap *enforced;
}

MemoryCap *memory_cap() { return enforced; }

Result<void> enforce_memory_cap(Driver &driver, int account, int host_locks)
{
    auto caps = list("RGPU_WORKER_MEMORY"), index = list("RGPU_WORKER_INDEX");
    if (!caps) return std::move(caps).error();
    if (!index) return std::move(index).error();
    int count = 0;
    if (CUresult r = driver.call<CallId::cuDeviceGetCount>()(&count))
        return error(ErrorKind::unavailable, "cuDeviceGetCount: %d", r);
    if (caps->empty()) return {};  // nothing was said
    bool partial = false;
    if (caps->size() != static_cast<size_t>(count) || index->size() != caps->size())
        return error(ErrorKind::internal, "%zu caps and %zu numbers for %d GPUs", caps->size(), index->size(), count);
    for (int d = 0; d < count; d++) {
        size_t total = 0;
        if (CUresult r = driver.call<CallId::cuDeviceTotalMem_v2>()(&total, d))
            return error(ErrorKind::unavailable, "cuDeviceTotalMem: %d", r);
        uint64_t &cap = (*caps)[static_cast<size_t>(d)];
        partial |= cap < total;
        cap = std::min<uint64_t>(cap, total);
    }
    if (!partial) return {};
    auto places = list("RGPU_WORKER_PLACES"), gpus = list("RGPU_WORKER_LEASE_GPUS");
    if (!places || !gpus) return std::move(places ? gpus : places).error();
    auto opened = MemoryAccount::open(Fd(account), *caps, {places->begin(), places->end()}, gpus->empty() ? 0 : gpus->front());
    if (!opened) return std::move(opened).error();
    auto &cap = *new MemoryCap(driver, std::move(*opened), Fd(host_locks), {index->begin(), index->end()});
    put_in_front(driver, cap);
    enforced = &cap;
    return {};
}

}  // namespace rgpu::worker
