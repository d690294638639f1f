// SPDX-License-Identifier: Apache-2.0
// What a client names in its hello: a lease, and which of its GPUs it wants to see.
//
// "5d41..." is the lease with all of its GPUs, "5d41.../20" the third and the first, in this order:
// a base-36 digit for each, its place in the lease. It is a part of what the proof covers. Made
// from CUDA_VISIBLE_DEVICES.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rgpu::wire {

struct LeaseName {
    std::string lease;
    std::vector<int> gpus;  // empty: all
};

// Places above 35 cannot be said: no host has so many GPUs.
inline std::string to_text(const LeaseName &name)
{
    constexpr std::string_view digits = "0123456789abcdefghijklmnopqrstuvwxyz";
    std::string out = name.lease;
    if (!name.gpus.empty()) out += '/';
    for (int place : name.gpus)
        if (place >= 0 && static_cast<size_t>(place) < digits.size())
            out += digits[static_cast<size_t>(place)];
    return out;
}

// Nothing where a digit is none, or stands there twice.
inline std::optional<LeaseName> parse_lease_name(std::string_view text)
{
    size_t slash = text.find('/');
    LeaseName out{std::string(text.substr(0, slash)), {}};
    for (char c : slash == text.npos ? std::string_view() : text.substr(slash + 1)) {
        int place = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'z' ? c - 'a' + 10 : -1;
        if (place < 0) return {};
        for (int before : out.gpus)
            if (before == place) return {};
        out.gpus.push_back(place);
    }
    return out;
}

}  // namespace rgpu::wire
