// SPDX-License-Identifier: Apache-2.0
// The slots' memory and the free list.
#include "interpose/state/handles.h"

#include <sys/mman.h>

#include <new>

namespace rgpu::interpose {

Handles::Handles() { map(1); }

// Only of a table that no handle was made in: client.h.
Handles::~Handles() { unmap(); }

// Numbers that servers give: a range for each, the worker's own for the first
// (worker/session/objects.h).
void Handles::map(size_t servers)
{
    end_ = static_cast<HandleId>(calls::kFirstServerHandle * (1 + servers));
    void *p = mmap(nullptr, size_t{end_} * kSlotBytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    base_ = p == MAP_FAILED ? 0 : reinterpret_cast<uintptr_t>(p);
}

void Handles::unmap() const
{
    if (base_) munmap(reinterpret_cast<void *>(base_), size_t{end_} * kSlotBytes);
}

void Handles::span(size_t servers, unsigned (*here)())
{
    std::lock_guard lock(mutex_);
    here_.store(here, std::memory_order_relaxed);
    unmap();
    map(servers);
}

HandleId Handles::make(HandleKind kind, HandleId parent)
{
    std::lock_guard lock(mutex_);
    HandleId id = 0;
    if (!free_.empty()) {
        id = free_.back();
        free_.pop_back();
    } else if (base_ && next_ < calls::kFirstServerHandle) {
        // Room for all that there are, so that the end of one needs no memory.
        const size_t all = next_ + size_t{1} - calls::kFirstHandle;
        if (free_.capacity() < all) free_.reserve(2 * all);
        id = next_++;
    } else {
        return calls::kNoHandle;
    }
    Slot *s = new (at(id)) Slot;
    s->parent = parent;
    s->stamp = ++last_stamp_;
    const auto here = here_.load(std::memory_order_relaxed);
    const bool everywhere = here && (kind == HandleKind::library || kind == HandleKind::kernel);
    s->server = everywhere ? kEverywhere : static_cast<uint8_t>(here ? here() : 0);
    s->kind.store(kind, std::memory_order_release);
    return id;
}

Slot *Handles::adopt(HandleKind kind, HandleId &id, HandleId parent)
{
    if (id < calls::kFirstHandle || id >= calls::kMaxHandles || !base_) return nullptr;
    const auto here = here_.load(std::memory_order_relaxed);
    const unsigned server = here ? here() : 0;
    if (id >= calls::kFirstServerHandle) id += server * calls::kFirstServerHandle;
    std::lock_guard lock(mutex_);
    if (at(id)->kind.load() == kind) return at(id);
    if (id < calls::kFirstServerHandle) return nullptr;  // ours, and ended
    Slot *s = new (at(id)) Slot;
    s->parent = parent;
    s->stamp = ++last_stamp_;
    s->server = static_cast<uint8_t>(server);
    s->kind.store(kind, std::memory_order_release);
    return s;
}

void Handles::end(HandleId id)
{
    std::lock_guard lock(mutex_);
    if (!base_) return;
    const bool ours = id >= calls::kFirstHandle && id < next_;
    const bool servers = id >= calls::kFirstServerHandle && id < end_;
    if (!ours && !servers) return;
    const HandleKind was = at(id)->kind.exchange(HandleKind::none);
    // Threads whose current context has ended must not find themselves in a new one.
    if (was != HandleKind::none && was != HandleKind::context && ours) free_.push_back(id);
}

std::vector<HandleId> Handles::empty_context(HandleId context)
{
    std::vector<HandleId> found;
    std::lock_guard lock(mutex_);
    at(context)->stamp = ++last_stamp_;
    for (HandleId id = calls::kFirstHandle; id < next_; id++) switch (at(id)->kind.load()) {
        case HandleKind::module:
        case HandleKind::stream:
        case HandleKind::event:
        case HandleKind::array:
        case HandleKind::mipmapped_array:
        case HandleKind::link_state:
            if (at(id)->parent == context) found.push_back(id);
            break;
        default: break;
        }
    return found;
}

std::optional<HandleId> Handles::find(uintptr_t value, HandleKind kind)
{
    if (value < calls::kFirstHandle) {
        const bool special = value <= 2 && kind == HandleKind::stream;
        if (value == 0 || special) return static_cast<HandleId>(value);
        return std::nullopt;
    }
    const uintptr_t offset = value - base_;
    if (value < base_ || offset >= size_t{end_} * kSlotBytes || offset % kSlotBytes)
        return std::nullopt;
    auto id = static_cast<HandleId>(offset / kSlotBytes);
    HandleKind have = at(id)->kind.load(std::memory_order_acquire);
    // CUDA lets a CUkernel be used as a CUfunction (cuLaunchKernel's description).
    bool fits = have == kind || (kind == HandleKind::function && have == HandleKind::kernel);
    return fits ? std::optional(id) : std::nullopt;
}

}  // namespace rgpu::interpose
