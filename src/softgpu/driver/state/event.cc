// SPDX-License-Identifier: Apache-2.0
#include "softgpu/driver/state/event.h"

#include <chrono>

#include "softgpu/driver/state/driver.h"
#include "softgpu/driver/state/stream.h"

namespace rgpu::softgpu::driver {

void Event::record(Stream &stream)
{
    record([&stream](std::function<void()> work) { return stream.enqueue(std::move(work)); });
}

void Event::record(const std::function<TaskRef(std::function<void()>)> &place)
{
    auto record = std::make_shared<Record>();
    std::lock_guard lock(mutex_);
    // Others wait for a shared event even if this context has failed and leaves the work out.
    std::shared_ptr<void> passing;
    if (shared) {
        const uint64_t number = shared->record();
        passing.reset(shared.get(), [s = shared, number](void *) { s->pass(number); });
    }
    record->task = place([record, passing] {
        record->nanoseconds =
            std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
    });
    record_ = std::move(record);
}

std::shared_ptr<Event::Record> Event::newest() const
{
    std::lock_guard lock(mutex_);
    return record_;
}

TaskRef Event::task() const
{
    auto r = newest();
    return r ? r->task : nullptr;
}

bool Event::passed() const
{
    return shared ? shared->passed(shared->newest()) : driver().scheduler.done(task());
}

void Event::wait() const
{
    if (shared)
        shared->wait(shared->newest());
    else
        driver().scheduler.wait(task());
}

bool Event::recorded() const { return newest() != nullptr; }

CUresult Event::since(const Event &start, float &milliseconds) const
{
    auto from = start.newest(), to = newest();
    if (!from || !to || (flags | start.flags) & CU_EVENT_DISABLE_TIMING)
        return CUDA_ERROR_INVALID_HANDLE;
    const Scheduler &scheduler = driver().scheduler;
    if (!scheduler.done(from->task) || !scheduler.done(to->task)) return CUDA_ERROR_NOT_READY;
    milliseconds = static_cast<float>(to->nanoseconds - from->nanoseconds) / 1e6f;
    return CUDA_SUCCESS;
}

}  // namespace rgpu::softgpu::driver
