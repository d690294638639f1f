// SPDX-License-Identifier: Apache-2.0
#include "worker/copies/long_copies.h"

#include <algorithm>
#include <deque>

#include "worker/driver/driver.h"

namespace rgpu::worker {

void LongCopies::start(const Copy &copy)
{
    {
        std::lock_guard lock(mutex_);
        under_way_++;
    }
    waiters_.run([this, copy] {
        carry_out(copy);
        std::lock_guard lock(mutex_);
        under_way_--;
        ended_.notify_all();
    });
}

void LongCopies::forget(CUcontext context)
{
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return !under_way_; });
    staging_.forget(context);
}

void LongCopies::carry_out(Copy c)
{
    struct Part {
        Chunk chunk;
        size_t bytes = 0;
    };
    std::deque<Part> ahead;
    size_t most = Copies::kAhead;
    CUresult result = DRIVER(cuCtxSetCurrent)(c.context);
    while (!ahead.empty() || (!result && c.bytes)) {
        while (!result && c.bytes && ahead.size() < most) {
            Part part{staging_.take_to_send(c.context, result), 0};
            if (!part.chunk.data) break;
            part.bytes = std::min<uint64_t>(c.bytes, part.chunk.bytes);
            if (!result)
                result =
                    DRIVER(cuMemcpyDtoHAsync_v2)(part.chunk.data, c.from, part.bytes, c.stream);
            if (!result) result = DRIVER(cuEventRecord)(part.chunk.event, c.stream);
            if (result) {
                staging_.give(part.chunk);
                break;
            }
            if (ahead.empty()) most = Copies::ahead(part.chunk);
            c.from += part.bytes, c.bytes -= part.bytes;
            ahead.push_back(part);
        }
        if (ahead.empty()) break;
        const Part part = ahead.front();
        ahead.pop_front();
        const CUresult copied = DRIVER(cuEventSynchronize)(part.chunk.event);
        if (!result) result = copied;
        const bool last = !c.bytes && ahead.empty();
        if (result) {
            staging_.give(part.chunk);
            continue;
        }
        if (last) others_.before_last();
        sender_.data(c.sequence, CUDA_SUCCESS, part.chunk.data, part.bytes, last);
        staging_.give_sent(part.chunk);
    }
    // A copy that fails half-way is ended by a frame with the error and no bytes.
    if (result) sender_.data(c.sequence, result, nullptr, 0, true);
}

}  // namespace rgpu::worker
