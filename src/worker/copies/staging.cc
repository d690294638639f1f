// SPDX-License-Identifier: Apache-2.0
// Chunks are made by need, and never freed: the process is short-lived and will want them again.
#include "worker/copies/staging.h"

#include <sys/mman.h>

#include <algorithm>

#include "worker/driver/driver.h"

namespace rgpu::worker {

// Moves done chunks from busy to free; with `wait` at least one.
bool Staging::collect(bool wait)
{
    if (wait && !busy_.empty()) DRIVER(cuEventSynchronize)(busy_.front().event);
    auto still = std::stable_partition(busy_.begin(), busy_.end(), [](const Chunk &c) {
        return DRIVER(cuEventQuery)(c.event) == CUDA_ERROR_NOT_READY;
    });
    const bool any = still != busy_.end();
    std::for_each(still, busy_.end(), [this](const Chunk &c) { free(c); });
    busy_.erase(still, busy_.end());
    return any;
}

// Waits for it, kStall at most.
bool Staging::one_comes_free()
{
    constexpr std::chrono::microseconds kLook{200};
    for (auto end = std::chrono::steady_clock::now() + kStall;
         std::chrono::steady_clock::now() < end;) {
        {
            std::unique_lock lock(mutex_);
            if (given_.wait_for(lock, kLook, [&] { return !free_.empty(); })) return true;
        }
        if (collect(false)) return true;
    }
    return false;
}

void Staging::give_done()
{
    while (!busy_.empty() && DRIVER(cuEventQuery)(busy_.front().event) != CUDA_ERROR_NOT_READY) {
        free(busy_.front());
        busy_.pop_front();
    }
}

void Staging::free(const Chunk &c)
{
    if (!c.lent.data) return give(c);
    transport_->give_back(c.lent);
    idle(c.data);
}

// Pins it, and sees to its event.
void Staging::prepare(Chunk &c, CUcontext context, CUresult &result)
{
    // Copies work without, too, only slower.
    if (!c.pinned)
        c.pinned = !DRIVER(cuMemHostRegister_v2)(c.data, c.bytes, CU_MEMHOSTREGISTER_PORTABLE);
    if (c.context == context) return;
    if (c.event) DRIVER(cuEventDestroy_v2)(c.event);
    result = DRIVER(cuEventCreate)(&c.event, CU_EVENT_DISABLE_TIMING);
    c.context = result ? nullptr : context;
    if (result) c.event = nullptr;
}

Chunk Staging::take(CUcontext context, CUresult &result)
{
    Chunk c;
    result = CUDA_SUCCESS;
    for (bool make = false;;) {
        {
            std::lock_guard lock(mutex_);
            if (!free_.empty()) {
                c = free_.back();
                free_.pop_back();
                break;
            }
            make = made_ < most_ || (stalled_ && made_ < kStalledChunks);
        }
        if (collect(false)) continue;
        if (make) {
            void *p = mmap(nullptr, kChunkBytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (p == MAP_FAILED) {
                result = CUDA_ERROR_OUT_OF_MEMORY;
                return {};
            }
            c.data = p;
            c.bytes = kChunkBytes;
            std::lock_guard lock(mutex_);
            made_++;
            break;
        }
        if (!one_comes_free()) {
            std::lock_guard lock(mutex_);
            stalled_ = true;
        }
    }
    prepare(c, context, result);
    return c;
}

Chunk Staging::prepared_place(const Chunk &fresh, CUcontext context, CUresult &result)
{
    result = CUDA_SUCCESS;
    std::lock_guard lock(mutex_);
    PinnedChunk &place = places_[fresh.data];
    if (!place.chunk.data) place.chunk = fresh;
    place.users++;
    prepare(place.chunk, context, result);
    Chunk c = place.chunk;
    c.lent = fresh.lent;
    return c;
}

Chunk Staging::around(const net::Lent &lent, CUcontext context, CUresult &result)
{
    Chunk fresh;
    fresh.data = lent.place;
    fresh.bytes = lent.place_bytes;
    fresh.lent = lent;
    return prepared_place(fresh, context, result);
}

Chunk Staging::take_to_send(CUcontext context, CUresult &result)
{
    Chunk fresh;
    fresh.reserved = true;
    while (transport_ && !(fresh.data = transport_->reserve(fresh.bytes)) &&
           transport_->places_under_way())
        transport_->wait(net::Transport::kPlace, -1);
    if (!fresh.data) return take(context, result);
    const Chunk c = prepared_place(fresh, context, result);
    if (result) give(c);
    return result ? Chunk() : c;
}

void Staging::idle(const void *place)
{
    std::lock_guard lock(mutex_);
    places_[place].users--;
}

// With the mutex held.
void Staging::clear(Chunk &c, CUcontext context)
{
    // Which context a page is pinned in is not noted: pinning again costs little, and contexts end
    // seldom.
    if (c.pinned) DRIVER(cuMemHostUnregister)(c.data);
    c.pinned = false;
    if (c.context != context) return;
    DRIVER(cuEventDestroy_v2)(c.event);
    c.event = nullptr;
    c.context = nullptr;
}

void Staging::forget(CUcontext context)
{
    while (collect(true)) {}
    std::lock_guard lock(mutex_);
    for (Chunk &c : free_) clear(c, context);
    for (auto &[at, place] : places_)
        if (!place.users) clear(place.chunk, context);
}

void Staging::give(Chunk c)
{
    if (c.reserved) {
        transport_->unreserve(c.data);
        return idle(c.data);
    }
    std::lock_guard lock(mutex_);
    free_.push_back(c);
    stalled_ = false;
    given_.notify_one();
}

void Staging::give_sent(const Chunk &c) { c.reserved ? idle(c.data) : give(c); }

}  // namespace rgpu::worker
