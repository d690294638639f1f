// SPDX-License-Identifier: Apache-2.0
#include "softgpu/driver/state/context.h"

#include <algorithm>
#include <shared_mutex>

#include "softgpu/driver/state/attributes.h"

namespace rgpu::softgpu::driver {

namespace {

std::atomic<uint64_t> next_context_id = 1;

struct Contexts {
    std::shared_mutex mutex;
    std::set<Context *> all;
};

Contexts &contexts()
{
    static auto *c = new Contexts;
    return *c;
}

}  // namespace

Context::Context(Device &d, bool primary, unsigned f, unsigned api)
    : device(d), is_primary(primary), api_version(api), id(next_context_id++), flags(f),
      streams(*this), alive_(!primary)
{
    std::unique_lock lock(contexts().mutex);
    contexts().all.insert(this);
}

// --- life

void Context::retain()
{
    std::lock_guard lock(settings_mutex_);
    references_++;
    alive_ = true;
}

std::optional<int> Context::release()
{
    std::lock_guard lock(settings_mutex_);
    if (references_ == 0) return std::nullopt;
    return --references_;
}

void Context::kill()
{
    alive_ = false;
    references_ = 0;
}

void Context::clear()
{
    std::lock_guard lock(settings_mutex_);
    limits_.clear();
    heap_.reset();
    peers_.clear();
    streams.clear();
}

// --- settings

CUresult Context::limit(CUlimit which, size_t &value)
{
    static constexpr struct {
        CUlimit limit;
        size_t value;
    } defaults[] = {
        {CU_LIMIT_STACK_SIZE, 1024},
        {CU_LIMIT_PRINTF_FIFO_SIZE, size_t{1} << 20},
        {CU_LIMIT_MALLOC_HEAP_SIZE, DeviceHeap::kDefaultBytes},
        {CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH, 2},
        {CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 2048},
        {CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 64},
        {CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 0},
        {CU_LIMIT_SHMEM_SIZE, kSharedPerBlock},
        {CU_LIMIT_CIG_ENABLED, 0},  // no CUDA in graphics; cuBLAS asks
    };
    const auto *known = std::find_if(std::begin(defaults), std::end(defaults),
                                     [&](const auto &d) { return d.limit == which; });
    if (known == std::end(defaults))
        return which < CU_LIMIT_MAX ? CUDA_ERROR_UNSUPPORTED_LIMIT : CUDA_ERROR_INVALID_VALUE;
    std::lock_guard lock(settings_mutex_);
    auto chosen = limits_.find(which);
    value = chosen != limits_.end() ? chosen->second : known->value;
    return CUDA_SUCCESS;
}

CUresult Context::set_limit(CUlimit which, size_t value)
{
    size_t old;
    if (which == CU_LIMIT_SHMEM_SIZE || which == CU_LIMIT_CIG_ENABLED)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    if (CUresult rc = limit(which, old)) return rc;
    std::lock_guard lock(settings_mutex_);
    // CUDA: the heap has its size once a kernel has used it.
    if (which == CU_LIMIT_MALLOC_HEAP_SIZE && heap_ && value != old && !heap_->resize(value))
        return CUDA_ERROR_INVALID_VALUE;
    limits_[which] = value;
    return CUDA_SUCCESS;
}

DeviceHeap &Context::heap()
{
    size_t bytes = 0;
    limit(CU_LIMIT_MALLOC_HEAP_SIZE, bytes);
    std::lock_guard lock(settings_mutex_);
    if (!heap_) heap_ = std::make_unique<DeviceHeap>(bytes);
    return *heap_;
}

bool Context::add_peer(Context *peer)
{
    std::lock_guard lock(settings_mutex_);
    return peers_.insert(peer).second;
}

bool Context::remove_peer(Context *peer)
{
    std::lock_guard lock(settings_mutex_);
    return peers_.erase(peer);
}

// --- all contexts

void forget_context(Context *c)
{
    std::unique_lock lock(contexts().mutex);
    contexts().all.erase(c);
}

Context *find_context(CUcontext handle)
{
    auto *c = reinterpret_cast<Context *>(handle);
    std::shared_lock lock(contexts().mutex);
    return contexts().all.count(c) ? c : nullptr;
}

void synchronize_all(const Device &device)
{
    std::vector<Context *> there;
    {
        std::shared_lock lock(contexts().mutex);
        for (Context *c : contexts().all)
            if (&c->device == &device) there.push_back(c);
    }
    for (Context *c : there) (void)c->synchronize();
}

}  // namespace rgpu::softgpu::driver
