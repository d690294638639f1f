// Chunks are made by need, and never freed: the process is short-lived and will want them again.
#include "serverd/worker/staging.h"

#include <sys/mman.h>

#include <algorithm>

#include "serverd/worker/driver.h"

namespace rgpu::worker {

// Moves done chunks from busy to free; with `wait` at least one.
bool Staging::collect(bool wait)
{
    if (wait && !busy_.empty()) DRIVER(cuEventSynchronize)(busy_.front().event);
    auto still = std::stable_partition(busy_.begin(), busy_.end(), [](const Chunk &c) {
        return DRIVER(cuEventQuery)(c.event) == CUDA_ERROR_NOT_READY;
    });
    std::lock_guard lock(mutex_);
    const bool any = still != busy_.end();
    free_.insert(free_.end(), still, busy_.end());
    busy_.erase(still, busy_.end());
    return any;
}

Chunk Staging::take(CUcontext context, CUresult &result)
{
    Chunk c;
    result = CUDA_SUCCESS;
    for (;;) {
        {
            std::unique_lock lock(mutex_);
            if (free_.empty() && made_ == kChunks && busy_.empty()) given_.wait(lock, [&] { return !free_.empty(); });
            if (!free_.empty()) {
                c = free_.back();
                free_.pop_back();
                break;
            }
        }
        if (collect(false)) continue;
        if (made_ < kChunks) {
            void *p = mmap(nullptr, kChunkBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (p == MAP_FAILED) {
                result = CUDA_ERROR_OUT_OF_MEMORY;
                return {};
            }
            c.data = p;
            made_++;
            break;
        }
        collect(true);
    }
    // Copies work without, too, only slower.
    if (!c.pinned) c.pinned = !DRIVER(cuMemHostRegister_v2)(c.data, kChunkBytes, CU_MEMHOSTREGISTER_PORTABLE);
    if (c.context != context) {
        if (c.event) DRIVER(cuEventDestroy_v2)(c.event);
        result = DRIVER(cuEventCreate)(&c.event, CU_EVENT_DISABLE_TIMING);
        c.context = result ? nullptr : context;
        if (result) c.event = nullptr;
    }
    return c;
}

void Staging::forget(CUcontext context)
{
    while (collect(true)) {}
    std::lock_guard lock(mutex_);
    for (Chunk &c : free_) {
        // Which context a page is pinned in is not noted: pinning again costs little, and contexts end seldom.
        if (c.pinned) DRIVER(cuMemHostUnregister)(c.data);
        c.pinned = false;
        if (c.context != context) continue;
        DRIVER(cuEventDestroy_v2)(c.event);
        c.event = nullptr;
        c.context = nullptr;
    }
}

void Staging::give(Chunk c)
{
    std::lock_guard lock(mutex_);
    free_.push_back(c);
    given_.notify_one();
}

}  // namespace rgpu::worker
