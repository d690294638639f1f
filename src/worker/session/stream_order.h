// SPDX-License-Identifier: Apache-2.0
// Which streams are in an order with those that have large copies to the host open (copies.h): a
// stream with itself, and the default stream with all that wait for it. Dispatcher only.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/session/session.h"

namespace rgpu::worker {

// A stream's name in Copies: each context has a default stream of its own.
Copies::Key stream_key(const Call &, HandleId stream);

// Whether the stream is in no order with those that have open copies.
bool is_apart(Session &, Copies::Key, CUstream);
// The open copies that it is in some order with.
std::vector<uint64_t> copies_in_front(Session &, Copies::Key, CUstream);
// Gives all that is left of open copies to the GPU.
void close_copies(Session &);

}  // namespace rgpu::worker
