// SPDX-License-Identifier: Apache-2.0
// What compute nodes said of their configuration, so that rgpu slurm check finds those that differ.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <string>

#include "pool/messages/messages.h"

namespace rgpu::serverd {

// Any thread may call. Holds defaults::kMaxText bytes of at most kMost nodes; the one that was not
// heard of for the longest time makes room.
class NodeConfigs {
public:
    static constexpr size_t kMost = 65536;
    using Clock = std::chrono::steady_clock;

    // Forgets nothing and takes nothing where a text is empty, too long or not printable.
    void heard(const std::string &node, const std::string &config,
               Clock::time_point now = Clock::now());
    pool::NodeConfigs tell(Clock::time_point now = Clock::now()) const;

private:
    struct Said {
        std::string config;
        Clock::time_point at;
    };
    mutable std::mutex mutex_;
    std::map<std::string, Said> nodes_;
};

}  // namespace rgpu::serverd
