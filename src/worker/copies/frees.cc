// SPDX-License-Identifier: Apache-2.0
#include "worker/copies/frees.h"

#include <algorithm>
#include <utility>

#include "worker/driver/driver.h"

namespace rgpu::worker {

void Frees::start(Free f)
{
    {
        std::lock_guard lock(mutex_);
        waiting_.push_back(std::move(f));
    }
    waiters_.run([this] { carry_out_next(); });
}

bool Frees::carry_out_next(std::optional<CUcontext> owner)
{
    Free next;
    {
        std::lock_guard lock(mutex_);
        const auto it = std::find_if(waiting_.begin(), waiting_.end(),
                                     [&](const Free &f) { return !owner || f.owner == *owner; });
        if (it == waiting_.end()) return false;
        next = std::move(*it);
        waiting_.erase(it);
        under_way_.insert(next.owner);
    }
    const CUresult r = DRIVER(cuCtxSetCurrent)(next.context);
    next.answer(r ? r : next.call());
    std::lock_guard lock(mutex_);
    under_way_.erase(under_way_.find(next.owner));
    fewer_.notify_all();
    return true;
}

void Frees::finish(CUcontext context)
{
    while (carry_out_next(context)) {}
    std::unique_lock lock(mutex_);
    fewer_.wait(lock, [&] { return !under_way_.contains(context); });
}

}  // namespace rgpu::worker
