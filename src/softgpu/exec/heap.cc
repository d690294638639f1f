// SPDX-License-Identifier: Apache-2.0
// The device heap: pages of its own, and its book-keeping elsewhere, so that a kernel that writes
// past its allocation harms only its own grid's data.
#include <cstdint>
#include <map>
#include <mutex>
#include <unordered_map>

#include <sys/mman.h>

#include "softgpu/engine.h"

namespace rgpu::softgpu {

struct DeviceHeap::Impl {
    std::mutex mutex;
    uint8_t *base = nullptr;
    size_t bytes = 0;
    std::map<size_t, size_t> holes;            // offset → size
    std::multimap<size_t, size_t> by_size;     // size → offset, of the same holes
    std::unordered_map<size_t, size_t> taken;  // offset → size

    // At the first allocation.
    bool reserve()
    {
        if (base) return true;
        void *map = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (map == MAP_FAILED) return false;
        base = static_cast<uint8_t *>(map);
        add(0, bytes);
        return true;
    }
    void add(size_t offset, size_t size)
    {
        holes.emplace(offset, size);
        by_size.emplace(size, offset);
    }
    void remove(std::map<size_t, size_t>::iterator hole)
    {
        auto [first, last] = by_size.equal_range(hole->second);
        for (; first != last; ++first) {
            if (first->second != hole->first) continue;
            by_size.erase(first);
            break;
        }
        holes.erase(hole);
    }
};

DeviceHeap::DeviceHeap(size_t bytes) : impl_(std::make_unique<Impl>()) { resize(bytes); }

bool DeviceHeap::resize(size_t bytes)
{
    std::lock_guard lock(impl_->mutex);
    if (impl_->base) return false;
    impl_->bytes = (bytes + 4095) / 4096 * 4096;
    return true;
}

DeviceHeap::~DeviceHeap()
{
    if (impl_->base) munmap(impl_->base, impl_->bytes);
}

void *DeviceHeap::allocate(size_t bytes)
{
    std::lock_guard lock(impl_->mutex);
    if (bytes == 0 || bytes > impl_->bytes || !impl_->reserve()) return nullptr;
    bytes = (bytes + 15) / 16 * 16;
    auto best = impl_->by_size.lower_bound(bytes);
    if (best == impl_->by_size.end()) return nullptr;
    auto [size, offset] = *best;
    impl_->remove(impl_->holes.find(offset));
    if (size > bytes) impl_->add(offset + bytes, size - bytes);
    impl_->taken.emplace(offset, bytes);
    return impl_->base + offset;
}

bool DeviceHeap::free(void *pointer)
{
    std::lock_guard lock(impl_->mutex);
    auto offset = reinterpret_cast<uintptr_t>(pointer) - reinterpret_cast<uintptr_t>(impl_->base);
    auto found = impl_->taken.find(offset);
    if (found == impl_->taken.end()) return false;
    size_t size = found->second;
    impl_->taken.erase(found);
    auto after = impl_->holes.lower_bound(offset);
    if (after != impl_->holes.end() && after->first == offset + size) {
        size += after->second;
        impl_->remove(after);
    }
    auto before = impl_->holes.lower_bound(offset);
    if (before != impl_->holes.begin() && (--before)->first + before->second == offset) {
        offset = before->first;
        size += before->second;
        impl_->remove(before);
    }
    impl_->add(offset, size);
    return true;
}

}  // namespace rgpu::softgpu
