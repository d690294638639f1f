// SPDX-License-Identifier: Apache-2.0
#include "pool/client/acquire.h"

#include <algorithm>

#include "util/clock.h"

namespace rgpu::pool {

Result<Outcome> acquire_waiting(Client &client, const Request &request, const Wait &wait)
{
    Backoff backoff;
    Time start = now();
    for (int n = 0;; ++n) {
        Result<Outcome> outcome = client.acquire(request);
        if (!outcome || outcome->kind == Outcome::granted || outcome->kind == Outcome::never)
            return outcome;
        if (n == 0 && outcome->kind == Outcome::unreachable) return outcome;
        Milliseconds waited = now() - start;
        if (waited >= wait.limit) return outcome;
        if (wait.waiting) wait.waiting(*outcome, waited);
        if (!sleep_until(std::min(now() + backoff.pause(n), start + wait.limit), wait.cancelled))
            return outcome;
    }
}

}  // namespace rgpu::pool
