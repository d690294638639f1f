// SPDX-License-Identifier: Apache-2.0
// Further connections of one session that carry the bytes of large copies: as RGPU_CONNECTIONS
// says, opened when there was enough to carry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "interpose/base/lease.h"
#include "interpose/link/server_session.h"
#include "util/result.h"
#include "wire/lanes.h"

namespace rgpu::interpose {

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

    // For a session that lives as long as the process. `count`: what wanted() says.
    Lanes(ServerSession &session, const LeaseServer &server, std::optional<size_t> count)
        : session_(session), server_(server), count_(count.value_or(kLanes)),
          always_(count.has_value())
    {}

    // From how many bytes on they are opened: at once where a number is named.
    uint64_t worth_it() const { return always_ ? 1 : kWorthIt; }
    // Opens them, in a thread of ours. To be called once; any thread, with any lock.
    void begin();

private:
    void run();
    Result<void> open();

    ServerSession &session_;
    const LeaseServer server_;
    const size_t count_;
    const bool always_;
};

}  // namespace rgpu::interpose
