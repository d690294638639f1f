// SPDX-License-Identifier: Apache-2.0
// The beginning of a connection: proves the lease, agrees on what carries the bytes and how they
// are packed, and reads what the server says of itself.
#pragma once

#include "interpose/base/lease.h"
#include "interpose/link/server_session.h"
#include "util/result.h"

namespace rgpu::interpose {

// A session with this server, the program's `index`-th, which is never deleted. Waits for some
// round trips, and longer where the server refuses connections for a while; says so then. Any
// thread.
Result<ServerSession *> connect(const LeaseServer &server, uint32_t index);

}  // namespace rgpu::interpose
