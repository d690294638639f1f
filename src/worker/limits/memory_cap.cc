// SPDX-License-Identifier: Apache-2.0
// Counting, and what the driver tells.
#include "worker/limits/memory_cap.h"

#include <algorithm>

#include "share/pages.h"
#include "worker/driver/device_meter.h"

namespace rgpu::worker {

#define REAL(name) (real.call<CallId::name>())

uint64_t times(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

uint64_t whole_pages(uint64_t bytes)
{
    return add(bytes, kMemoryPage - 1) / kMemoryPage * kMemoryPage;
}

MemoryCap::MemoryCap(const Driver &d, MemoryAccount &account, size_t devices)
    : graphs(devices, d.symbol(kSoftwareMark)), contexts(devices), real(d),
      is_software(real.symbol(kSoftwareMark)),
      held_here_(reinterpret_cast<uint64_t (*)(int)>(real.symbol("rgpu_softgpu_memory_held"))),
      account_(account), counted_(devices), seen_(devices), promised_(devices)
{}

int MemoryCap::current_device() const
{
    CUdevice d = -1;
    return REAL(cuCtxGetDevice)(&d) ? -1 : d;
}

int MemoryCap::device_of(CUstream stream) const
{
    CUcontext context = nullptr, popped = nullptr;
    const bool names_one = stream && stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD;
    if (!names_one || !REAL(cuStreamGetCtx) || REAL(cuStreamGetCtx)(stream, &context) ||
        REAL(cuCtxPushCurrent_v2)(context))
        return current_device();
    const int device = current_device();
    REAL(cuCtxPopCurrent_v2)(&popped);
    return device;
}

std::unique_lock<std::recursive_mutex> MemoryCap::lock()
{
    std::unique_lock held(mutex_);
    entries_++;
    return held;
}

bool MemoryCap::become_strict()
{
    bool any = false;
    for (int d = 0; has(d); d++) any |= is_limited(d);
    if (!any) return false;
    std::lock_guard held(mutex_);
    if (strict_) return true;
    strict_.store(true, std::memory_order_release);
    for (int d = 0; has(d); d++) count_all(d);
    return true;
}

// Pools, graphs and what has no size were not counted so far. Where the driver does not tell of
// this process, all that is in use of the device may be this one's.
void MemoryCap::count_all(int device)
{
    CUmemoryPool pool = nullptr;
    cuuint64_t of_graphs = 0;
    if (REAL(cuDeviceGetDefaultMemPool) && !REAL(cuDeviceGetDefaultMemPool)(&pool, device) &&
        !pools.device_of(pool))
        pools.add(pool, device);
    if (auto get = REAL(cuDeviceGetGraphMemAttribute);
        get && !get(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &of_graphs) && of_graphs)
        graphs.seen();
    refresh(device);
    uint64_t &counted = counted_[static_cast<size_t>(device)];
    const auto here = own(device);
    counted = std::max(counted, (here ? here : in_use(device)).value_or(0));
    look(device);
}

void MemoryCap::heed()
{
    if (!is_strict()) return;
    const auto held = lock();
    for (int d = 0; has(d); d++) look(d);
}

std::optional<uint64_t> MemoryCap::own(int device) const
{
    return held_here_ ? held_here_(device) : device_memory_of_process(real, device);
}

// The bytes that anybody uses; unknown without a context where nothing else tells.
std::optional<uint64_t> MemoryCap::in_use(int device)
{
    size_t free = 0, total = 0;
    if (current_device() == device)
        return REAL(cuMemGetInfo_v2)(&free, &total) ? std::nullopt
                                                    : std::optional<uint64_t>(total - free);
    for (CUcontext context : contexts.of(device)) {
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

// The software GPU's figure is there for the asking.
uint64_t MemoryCap::seen(int device)
{
    const auto d = static_cast<size_t>(device);
    if (is_software) seen_[d] = own(device).value_or(0);
    return seen_[d];
}

// What was seen may be old, and graphs and pools may have shrunk: what does not fit is looked at
// again.
bool MemoryCap::hold(int device, const std::function<uint64_t()> &target)
{
    const auto d = static_cast<size_t>(device);
    if (account_.hold(d, target())) return true;
    look(device);
    return account_.hold(d, target());
}

bool MemoryCap::take(int device, uint64_t bytes)
{
    uint64_t &counted = counted_[static_cast<size_t>(device)];
    if (!hold(device, [&] { return add(std::max(counted, seen(device)), bytes); })) return false;
    counted = add(counted, bytes);
    return true;
}

bool MemoryCap::took(int device, uint64_t bytes)
{
    uint64_t &counted = counted_[static_cast<size_t>(device)];
    if (bytes && !hold(device, [&] { return std::max(add(counted, bytes), seen(device)); }))
        return false;
    counted = add(counted, bytes);
    return true;
}

void MemoryCap::give(int device, uint64_t bytes)
{
    const auto d = static_cast<size_t>(device);
    counted_[d] -= std::min(counted_[d], bytes);
    account_.hold_anyway(d, std::max(counted_[d], seen(device)));
}

CUresult MemoryCap::measured(int device, const Call &call, const Call &undo, Bounds bounds)
{
    uint64_t cost;
    return measured(device, call, undo, bounds, cost);
}

CUresult MemoryCap::measured(int device, const Call &call, const Call &undo, Bounds bounds,
                             uint64_t &cost)
{
    cost = 0;
    if (!has(device) || !is_strict()) return call();
    const auto d = static_cast<size_t>(device);
    if (undo && (used(device) > cap(device) || (bounds.least && bounds.least > left(device))))
        return CUDA_ERROR_OUT_OF_MEMORY;
    const uint64_t graphs_before = told_of_graphs(device);
    const auto own_before = own(device);
    const auto before = own_before ? std::nullopt : in_use(device);
    if (CUresult r = call()) return r;
    if (const auto own_after = own(device)) {
        const uint64_t held_before =
            own_before.value_or(0);  // NVML lists a process from its first context on
        cost = *own_after - std::min(held_before, *own_after);
    } else if (!own_before) {
        const auto after = in_use(device);
        if (after)
            cost = before ? *after - std::min(*before, *after) : cost_of_another_context(device);
        cost = std::clamp(cost, bounds.least, bounds.most);
    }
    // What graphs hold counts for them.
    const uint64_t of_graphs = told_of_graphs(device);
    cost -= std::min(cost, of_graphs - std::min(graphs_before, of_graphs));
    // What was promised before is counted already.
    const uint64_t kept_promise = unpromise(device, cost);
    cost -= kept_promise;
    if (took(device, cost)) return CUDA_SUCCESS;
    if (undo && undo() == CUDA_SUCCESS) {
        promise(device, kept_promise);
        look(device);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    counted_[d] = add(counted_[d], cost);
    give(device, 0);
    return CUDA_SUCCESS;
}

CUresult MemoryCap::sized(int device, uint64_t bytes, uint64_t &counted, const Call &call)
{
    counted = 0;
    if (!has(device)) return call();
    if (bytes > cap(device)) return CUDA_ERROR_OUT_OF_MEMORY;
    const uint64_t rounded = bytes > kSharesPages ? whole_pages(bytes) : (bytes + 511) / 512 * 512;
    if (!take(device, rounded)) return CUDA_ERROR_OUT_OF_MEMORY;
    if (CUresult r = call()) {
        give(device, rounded);
        return r;
    }
    counted = rounded;
    return CUDA_SUCCESS;
}

CUresult MemoryCap::told(int device, uint64_t most, const Call &call)
{
    if (!has(device)) return call();
    refresh(device);
    if (most > cap(device) || !take(device, most)) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = call();
    refresh(device);
    give(device, most);
    return r;
}

CUresult MemoryCap::released(int device, uint64_t counted, const Call &call)
{
    if (!has(device)) return call();
    const auto before = is_strict() ? own(device) : std::nullopt;
    if (CUresult r = call()) return r;
    const auto after = before ? own(device) : std::nullopt;
    give(device, after ? *before - std::min(*before, *after) : counted);
    return CUDA_SUCCESS;
}

uint64_t MemoryCap::told_of_graphs(int device) const
{
    cuuint64_t now = 0;
    auto get = REAL(cuDeviceGetGraphMemAttribute);
    return graphs.any() && get && !get(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &now) ? now
                                                                                             : 0;
}

bool MemoryCap::settle_graphs(int device, bool anyway)
{
    const uint64_t now = graphs.holds(device, told_of_graphs(device));
    uint64_t &counted = counted_[static_cast<size_t>(device)], &of_graphs = graphs.counted(device);
    const uint64_t then = add(counted - std::min(counted, of_graphs), now);
    // Not taken yet: it comes on top of what was seen.
    if (!anyway && then > counted && !hold(device, [&] {
            return add(std::max(counted, seen(device)), then - std::min(then, counted));
        }))
        return false;
    counted = then;
    of_graphs = now;
    give(device, 0);
    return true;
}

void MemoryCap::promise(int device, uint64_t bytes)
{
    uint64_t &promised = promised_[static_cast<size_t>(device)];
    promised = add(promised, bytes);
}

uint64_t MemoryCap::unpromise(int device, uint64_t bytes)
{
    uint64_t &promised = promised_[static_cast<size_t>(device)];
    const uint64_t less = std::min(promised, bytes);
    promised -= less;
    return less;
}

void MemoryCap::poll_leaving()
{
    leaving.poll([&](CUevent event, const Held &held) {
        if (REAL(cuEventQuery)(event) == CUDA_ERROR_NOT_READY) return false;
        REAL(cuEventDestroy_v2)(event);
        give(held.device, held.bytes);
        return true;
    });
}

void MemoryCap::refresh(int device)
{
    poll_leaving();
    if (!strict_) return;
    uint64_t &counted = counted_[static_cast<size_t>(device)];
    pools.each(device, [&](CUmemoryPool pool, uint64_t &of_pool) {
        cuuint64_t now = 0;
        if (REAL(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &now)) return;
        counted = add(counted - std::min(counted, of_pool), now);
        of_pool = now;
    });
    give(device, 0);
    if (graphs.any()) settle_graphs(device, true);
}

void MemoryCap::look(int device)
{
    seen_[static_cast<size_t>(device)] = own(device).value_or(0);
    refresh(device);
}

uint64_t MemoryCap::left(int device)
{
    look(device);
    const uint64_t used = this->used(device), cap = this->cap(device);
    return used < cap ? cap - used : 0;
}

void MemoryCap::forget_context(int device, CUcontext context)
{
    contexts.ended(device, context);
    contexts.launch_anew();
    if (!contexts.of(device).empty()) return;
    counted_[static_cast<size_t>(device)] = physical.bytes_on(device);
    promised_[static_cast<size_t>(device)] = 0;
    linear.forget(device);
    objects.forget(device);
    opened.forget(device);
    pools.forget(device);
    leaving.forget(device);
    graphs.forget(device);
    look(device);
}

namespace {

MemoryAccount *the_account = nullptr;  // the lease's, as this process has it open
int devices_of_account = 0;

}  // namespace

void note_credit(int device, uint64_t pages)
{
    if (device >= 0 && device < devices_of_account)
        the_account->note_credit(static_cast<size_t>(device), pages);
}

uint64_t others_credit(int device)
{
    uint64_t all = 0;
    for (int d = 0; d < devices_of_account; d++)
        if (device < 0 || d == device) all += the_account->others_credit(static_cast<size_t>(d));
    return all;
}

Result<void> enforce_memory_cap(Driver &driver, int account, const serverd::WorkerStart &start)
{
    std::vector<uint64_t> caps = start.memory;
    int count = 0;
    if (CUresult r = driver.call<CallId::cuDeviceGetCount>()(&count))
        return error(ErrorKind::unavailable, "cuDeviceGetCount: %d", r);
    if (caps.empty()) return {};  // nothing was said
    std::vector<uint64_t> whole;
    if (caps.size() != static_cast<size_t>(count))
        return error(ErrorKind::internal, "%zu caps for %d GPUs", caps.size(), count);
    for (int d = 0; d < count; d++) {
        size_t total = 0;
        if (CUresult r = driver.call<CallId::cuDeviceTotalMem_v2>()(&total, d))
            return error(ErrorKind::unavailable, "cuDeviceTotalMem: %d", r);
        uint64_t &cap = caps[static_cast<size_t>(d)];
        cap = std::min<uint64_t>(cap, total);
        whole.push_back(total);
    }
    auto opened = MemoryAccount::open(Fd(account), caps, start.places, start.lease_gpus);
    // Also where nothing is enforced yet: the lease may become smaller (rgpu resize).
    if (!opened) return std::move(opened).error();
    the_account = new MemoryAccount(std::move(*opened));
    devices_of_account = count;
    for (size_t d = 0; d < caps.size(); d++) {
        the_account->set_whole(d, whole[d]);
        // Without a scheduler the cap stays as it is.
        if (d >= start.boards.size()) continue;
        if (auto words = share::look_at_words(start.boards[d]))
            the_account->follow(d, &words->release()->memory);
    }
    put_in_front(driver, *new MemoryCap(driver, *the_account, caps.size()));
    return {};
}

}  // namespace rgpu::worker
