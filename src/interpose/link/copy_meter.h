// SPDX-License-Identifier: Apache-2.0
// How many bytes of large copies a connection has carried, and what is done when they are many.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace rgpu::interpose {

// carried() may be called by any thread, with any lock held.
class CopyMeter {
public:
    // Calls `enough` once, as soon as this many bytes were carried, in the thread that carries the
    // last of them. To be said before the first byte; unsaid, nothing is counted.
    void call_at(uint64_t bytes, std::function<void()> enough)
    {
        wanted_ = bytes;
        enough_ = std::move(enough);
    }

    // So many bytes of a copy were sent or received.
    void carried(size_t bytes)
    {
        if (!wanted_ || called_.load(std::memory_order_relaxed) ||
            bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes < wanted_)
            return;
        if (!called_.exchange(true)) enough_();
    }

private:
    uint64_t wanted_ = 0;
    std::function<void()> enough_;
    std::atomic<uint64_t> bytes_{0};
    std::atomic<bool> called_{false};
};

}  // namespace rgpu::interpose
