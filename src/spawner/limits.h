// What the workers of one job may take of a host together.
#pragma once

#include <cstdint>

namespace rgpu::spawner {

// 0 in any: no limit.
struct Limits {
    uint64_t memory;         // bytes of host memory, files of tmpfs and sockets' buffers included
    int32_t pids;            // processes and threads
    int32_t cpu_hundredths;  // at most so much of one processor: 150 is one and a half
    int32_t cpu_weight;  // 1 to 10000, 100 is usual: how groups divide processors that are short

    bool operator==(const Limits &) const = default;
};

// Where nothing but a user's processes can be counted, he may have others on this host.
inline constexpr int32_t kOthers = 4096;

}  // namespace rgpu::spawner
