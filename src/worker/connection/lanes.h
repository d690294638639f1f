// SPDX-License-Identifier: Apache-2.0
// The lanes that rgpud has given to this worker (net/transport/laned_transport.h), until its client
// begins with them.
#pragma once

#include <cstddef>
#include <vector>

#include "net/transport/own_socket.h"

namespace rgpu::worker {

// Keeps it, and says on it which one it is. One too many is closed. Any thread.
void keep_lane(Fd lane);

// The first so many, once; none where there are fewer. Any thread.
std::vector<net::OwnSocket> take_lanes(size_t count);

}  // namespace rgpu::worker
