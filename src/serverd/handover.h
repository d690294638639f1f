// SPDX-License-Identifier: Apache-2.0
// How a client's connection reaches a worker that was started before the client came, and a lane
// one that has its client.
//
// rgpud keeps one end of a channel (a pair of Unix sockets), the worker has the other. What is sent
// on it is that the worker shall get ready, once at most, and one client, once. That either end is
// closed is the end of the waiting worker.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "util/fd.h"
#include "util/result.h"
#include "util/sha256.h"
#include "util/units.h"

namespace rgpu::serverd {

// What a worker must know of a client that comes.
struct Introduction {
    uint64_t table_digest = 0;  // of its call table
    std::optional<Digest> key;  // of the tunnel around its connection; nothing: it is not encrypted
};
struct Visitor {
    Fd socket;
    Introduction client;
};

// The ends: rgpud's, the worker's.
Result<std::pair<Fd, Fd>> open_channel();

// rgpud's side; the socket stays the caller's. Both fail with `disconnected` when the worker has
// ended. On a worker's control socket "get ready" is for another size of its lease: the worker
// closes its end when it has counted what it holds.
Result<void> get_ready(int channel);
Result<void> hand_over(int channel, int socket, const Introduction &client);

// rgpud's side, after hand_over(): returns when the worker has closed its end, as it does when its
// client first rests or has gone, or the time is over.
void wait_taken(int channel, Milliseconds most);

// The worker's side: waits, and calls `ready` when it shall get ready. Nothing when rgpud has
// closed its end.
std::optional<Visitor> take_over(int channel, const std::function<void()> &ready);

}  // namespace rgpu::serverd
