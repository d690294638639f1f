// SPDX-License-Identifier: Apache-2.0
#include "pool/client/backoff.h"

#include <algorithm>
#include <thread>

#include "util/defaults.h"

namespace rgpu::pool {
namespace {

constexpr Milliseconds kLook{50};  // how often a sleep asks whether it was cancelled

}  // namespace

Milliseconds pause(int n, double random)
{
    auto length = static_cast<double>(defaults::kFirstPause.count());
    auto last = static_cast<double>(defaults::kLastPause.count());
    for (int i = 0; i < n && length < last; ++i) length *= 2;
    length = std::min(length, last) * (0.75 + random / 2);
    return Milliseconds(static_cast<int64_t>(length));
}

Milliseconds Backoff::pause(int n)
{
    const double random = std::uniform_real_distribution<double>(0, 1)(engine_);
    return n < short_pauses_ ? pool::pause(0, random) / (1 << (short_pauses_ - n))
                             : pool::pause(n - short_pauses_, random);
}

bool sleep_until(Time end, const std::function<bool()> &cancelled)
{
    while (now() < end) {
        if (cancelled && cancelled()) return false;
        std::this_thread::sleep_for(std::min(kLook, Milliseconds(end - now())));
    }
    return !(cancelled && cancelled());
}

}  // namespace rgpu::pool
