// SPDX-License-Identifier: Apache-2.0
#include "softgpu/driver/graph/condition.h"

#include <atomic>
#include <map>
#include <mutex>

#include "softgpu/driver/state/context.h"
#include "softgpu/driver/state/device.h"

namespace rgpu::softgpu::driver {

namespace {

struct Known {
    std::mutex mutex;
    std::map<CUgraphConditionalHandle, std::weak_ptr<Condition>> all;
};
Known &known()
{
    static auto *s = new Known;
    return *s;
}

constexpr uint64_t kBytes = sizeof(unsigned);

std::atomic_ref<unsigned> word(CUgraphConditionalHandle handle)
{
    return std::atomic_ref<unsigned>(*reinterpret_cast<unsigned *>(handle));
}

}  // namespace

std::shared_ptr<Condition> Condition::create(Context &c, unsigned initial, bool assign)
{
    const uint64_t address = c.device.arena.allocate(kBytes);
    if (!address) return nullptr;
    word(address) = 0;
    std::shared_ptr<Condition> made(new Condition(c, address, initial, assign));
    std::lock_guard lock(known().mutex);
    known().all[address] = made;
    return made;
}

Condition::~Condition()
{
    std::lock_guard lock(known().mutex);
    known().all.erase(handle);
    context.device.arena.free(handle, kBytes);
}

void Condition::start()
{
    if (assign_) word(handle) = initial_;
}

unsigned Condition::value() const { return word(handle); }

std::shared_ptr<Condition> find_condition(CUgraphConditionalHandle handle)
{
    std::lock_guard lock(known().mutex);
    auto it = known().all.find(handle);
    return it == known().all.end() ? nullptr : it->second.lock();
}

}  // namespace rgpu::softgpu::driver
