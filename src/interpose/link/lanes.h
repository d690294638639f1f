// Further connections of one session that carry the bytes of large copies: as RGPU_CONNECTIONS
// says, opened when there was enough to carry.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "interpose/base/lease.h"
#include "util/result.h"
#include "wire/lanes.h"

namespace rgpu::interpose {

class Session;

// Tells the user that there is one connection, where more were named.
void say_alone(const std::string &server, const std::string &why);

class Lanes {
public:
    // How many; nothing: as is best. Fails with `invalid` on another word.
    static Result<std::optional<size_t>> wanted();

    // Where the server is on another host: so many, from so many bytes on, which take longer than
    // opening them does; used where they are faster.
    static constexpr size_t kLanes = 4;
    static constexpr uint64_t kWorthIt = 16 << 20;

    Lanes(Session &session, const LeaseServer &server, std::optional<size_t> wanted)
        : session_(session), server_(server), count_(wanted.value_or(kLanes)),
          always_(wanted.has_value())
    {}

    // So many bytes of a copy went or came. Any thread, with any lock.
    void carried(size_t bytes)
    {
        if (!begun_.load(std::memory_order_relaxed) &&
            bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes >= (always_ ? 1 : kWorthIt))
            begin();
    }

private:
    void begin();
    void run();
    Result<void> open();

    Session &session_;
    const LeaseServer server_;
    const size_t count_;
    const bool always_;
    std::atomic<uint64_t> bytes_{0};
    std::atomic<bool> begun_{false};
};

}  // namespace rgpu::interpose
