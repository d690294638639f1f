// SPDX-License-Identifier: Apache-2.0
// How long each kernel, graph or memset takes: learnt from groups of launches whose end was seen.
// Caller locks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "share/window.h"

namespace rgpu::worker {

// Launches of one kind that stand behind each other, and what they were expected to take.
struct Group {
    const void *work = nullptr;
    int64_t count = 0;
    int64_t each = 0;
};

struct Estimate {
    int64_t each = 0;
    bool reliable = false;  // it was about right the last time
};

class Estimates {
public:
    // What is not known is taken to be long, so that it is looked at alone.
    static constexpr int64_t kUnknown = 20 * share::kMillisecond;
    // The first time may have been a rehearsal: one that was short is believed by and by.
    static constexpr int64_t kLeastFirst = kUnknown / 8;

    Estimate of(const void *work) const
    {
        auto it = known_.find(work);
        return it == known_.end() ? Estimate{kUnknown, false} : it->second;
    }

    // All of these together took so long.
    void learn(const std::vector<Group> &groups, int64_t took)
    {
        int64_t expected = 0;
        for (const Group &g : groups) expected += g.count * g.each;
        if (expected <= 0) return;
        const double ratio = static_cast<double>(took) / static_cast<double>(expected);
        // Handles end, and others get their addresses.
        if (known_.size() > kMost) known_.clear();
        for (const Group &g : groups) {
            auto [it, fresh] = known_.try_emplace(g.work, Estimate{g.each, false});
            const double sample = static_cast<double>(g.each) * ratio;
            const double next = fresh ? std::max(sample, static_cast<double>(kLeastFirst))
                                      : 0.5 * static_cast<double>(it->second.each) + 0.5 * sample;
            it->second.each = std::clamp<int64_t>(static_cast<int64_t>(next), share::kMicrosecond,
                                                  10 * share::kSecond);
            it->second.reliable = ratio > 0.5 && ratio < 2;
        }
    }

private:
    static constexpr size_t kMost = 4096;
    std::unordered_map<const void *, Estimate> known_;
};

}  // namespace rgpu::worker
