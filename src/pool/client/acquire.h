// SPDX-License-Identifier: Apache-2.0
// Waiting for GPUs that are in use: asks again and again, with limited exponential back-off.
#pragma once

#include <functional>

#include "pool/client/backoff.h"
#include "pool/client/client.h"

namespace rgpu::pool {

struct Wait {
    Milliseconds limit = defaults::kWait;  // 0: ask once
    // Called before each pause with what is waited for and the time so far.
    std::function<void(const Outcome &, Milliseconds waited)> waiting;
    // Asked at least every 100 ms: true ends the waiting (a signal came).
    std::function<bool()> cancelled;
};

// Returns when GPUs are granted, when no server ever could, when none answered at the first
// asking, or with the last `later` (or `unreachable`) when the limit has passed or it was
// cancelled.
Result<Outcome> acquire_waiting(Client &client, const Request &request, const Wait &wait);

}  // namespace rgpu::pool
