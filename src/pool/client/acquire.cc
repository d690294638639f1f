#include "pool/client/acquire.h"

#include <algorithm>
#include <random>
#include <thread>

#include "util/clock.h"

namespace rgpu::pool {
namespace {

constexpr Milliseconds kLook{100};  // how often a pause asks whether it was cancelled

// False: cancelled.
bool sleep_until(Time end, const Wait &wait)
{
    while (now() < end) {
        if (wait.cancelled && wait.cancelled()) return false;
        std::this_thread::sleep_for(std::min(kLook, Milliseconds(end - now())));
    }
    return !(wait.cancelled && wait.cancelled());
}

}  // namespace

Milliseconds pause(int n, double random)
{
    auto length = static_cast<double>(defaults::kFirstPause.count());
    auto last = static_cast<double>(defaults::kLastPause.count());
    for (int i = 0; i < n && length < last; ++i) length *= 2;
    length = std::min(length, last) * (0.75 + random / 2);
    return Milliseconds(static_cast<int64_t>(length));
}

Result<Outcome> acquire_waiting(Client &client, const Request &request, const Wait &wait)
{
    std::mt19937 engine(std::random_device{}());
    std::uniform_real_distribution<double> random(0, 1);
    Time start = now();
    for (int n = 0;; ++n) {
        Result<Outcome> outcome = client.acquire(request);
        if (!outcome || outcome->kind == Outcome::granted || outcome->kind == Outcome::never)
            return outcome;
        if (n == 0 && outcome->kind == Outcome::unreachable) return outcome;
        Milliseconds waited = now() - start;
        if (waited >= wait.limit) return outcome;
        if (wait.waiting) wait.waiting(*outcome, waited);
        if (!sleep_until(std::min(now() + pause(n, random(engine)), start + wait.limit), wait))
            return outcome;
    }
}

}  // namespace rgpu::pool
