// SPDX-License-Identifier: Apache-2.0
// Sizes, times and shares as people write them, to numbers and back.
//
// Each parser takes the whole text or fails with Error kind invalid, whose sentence shows what
// would be right. No dependencies: the plugins use it too.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "util/result.h"

namespace rgpu {

using Milliseconds = std::chrono::milliseconds;

// A whole GPU, in the unit that shares are counted in: hundredths.
inline constexpr int kWholeGpu = 100;

// "2G", "512M", "1.5GiB", "8GB", "4096": bytes. K, M, G, T are powers of 1024, as in Slurm's --mem.
Result<uint64_t> parse_size(std::string_view text);

// "2G", "1536M", "100": the shortest that parse_size reads back exactly.
std::string format_size(uint64_t bytes);

// "500ms", "5s", "30m", "2h", "7d", and "0": a time. A number without unit is refused, but for 0.
Result<Milliseconds> parse_duration(std::string_view text);

// "1500ms", "5s", "30m": the shortest that parse_duration reads back exactly.
std::string format_duration(Milliseconds time);

// "0.5" or "50%": a share in hundredths of a GPU, 1..100.
Result<int> parse_share(std::string_view text);

// What one may have of a GPU's time, in hundredths: this much for sure, and up to that while others
// leave it.
struct ShareRange {
    int least = kWholeGpu, most = kWholeGpu;
};
// "0.5" and "50%" are both ends at once: never less, never more. "0.3-1", "30%-100%", "30-100": a
// range; its least may be 0.
Result<ShareRange> parse_share_range(std::string_view text);
// "50%", "30-100%".
std::string share_text(int least, int most);

// "2.0 GiB": for people, not exact.
std::string human_size(uint64_t bytes);

// A whole number in [low, high], nothing before or after it.
Result<int64_t> parse_integer(std::string_view text, int64_t low, int64_t high);

}  // namespace rgpu
