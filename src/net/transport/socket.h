// SPDX-License-Identifier: Apache-2.0
// Plain socket calls with deadlines: connect, listen, and sending or receiving a whole object.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include "util/fd.h"
#include "util/result.h"

namespace rgpu::net {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

// A connection whose other end has said nothing for so long, to probes neither, is closed: its host
// is gone.
inline constexpr std::chrono::seconds kPeerGone{120};

// Connects to "host:port" or "[v6]:port", TCP_NODELAY and keep-alive set, blocking. Fails with
// `unavailable` when nobody answers before the deadline (the text names address and reason),
// `disconnected` when the host says that nobody listens there, `invalid` on a bad address.
Result<Fd> connect(std::string_view address, Deadline);

// Listens on "host:port" (port 0: any); SO_REUSEADDR set, and TCP_NODELAY and keep-alive for what
// is accepted.
Result<Fd> listen(std::string_view address);
// The port that a listening socket got.
int local_port(int fd);
// The peer's address, for the log.
std::string peer_name(int fd);

// Exactly `bytes` bytes, or `disconnected` when the peer closes, or `unavailable` when the deadline
// passes.
Result<void> receive_all(int fd, void *data, size_t bytes, Deadline);
Result<void> send_all(int fd, const void *data, size_t bytes, Deadline);

}  // namespace rgpu::net
