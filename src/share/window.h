// SPDX-License-Identifier: Apache-2.0
// What was counted in the last second, ten seconds and minute: rings of buckets that turn by
// themselves.
//
// Plain memory without pointers. One thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rgpu::share {

inline constexpr int64_t kMicrosecond = 1000;
inline constexpr int64_t kMillisecond = 1000 * kMicrosecond;
inline constexpr int64_t kSecond = 1000 * kMillisecond;

template <class T, size_t Buckets, int64_t Width> struct Window {
    T buckets[Buckets];
    int64_t last;  // the number of the newest bucket: time / Width

    void clear()
    {
        for (T &bucket : buckets) bucket = 0;
        last = 0;
    }

    // Empties the buckets that `now` has come past.
    void turn(int64_t now)
    {
        int64_t number = now / Width;
        if (number <= last) return;
        if (number - last >= static_cast<int64_t>(Buckets))
            last = number - static_cast<int64_t>(Buckets);
        while (last < number) buckets[static_cast<size_t>(++last) % Buckets] = 0;
    }

    void add(int64_t now, T amount)
    {
        turn(now);
        buckets[static_cast<size_t>(last) % Buckets] += amount;
    }

    // Something that took from `begin` to `end`, in the buckets where it was; T counts nanoseconds
    // / Scale.
    template <int64_t Scale> void spread(int64_t begin, int64_t end)
    {
        turn(end);
        int64_t oldest = (last - static_cast<int64_t>(Buckets) + 1) * Width;
        if (begin < oldest) begin = oldest;
        while (begin < end) {
            int64_t next = (begin / Width + 1) * Width;
            if (next > end) next = end;
            buckets[static_cast<size_t>(begin / Width) % Buckets] +=
                static_cast<T>((next - begin) / Scale);
            begin = next;
        }
    }

    // The sum of what lies between now - span and now, to the width of a bucket: the oldest one
    // counts by the part of it that is still within.
    double sum(int64_t now, int64_t span) const
    {
        double total = 0;
        int64_t from = now - span;
        for (int64_t number = now / Width; number >= 0 && (number + 1) * Width > from; --number) {
            if (number > last || last - number >= static_cast<int64_t>(Buckets)) continue;
            double bucket = static_cast<double>(buckets[static_cast<size_t>(number) % Buckets]);
            int64_t begin = number * Width;
            if (begin < from)
                bucket *= static_cast<double>(begin + Width - from) / static_cast<double>(Width);
            total += bucket;
        }
        return total;
    }
};

}  // namespace rgpu::share
