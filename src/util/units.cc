// SPDX-License-Identifier: Apache-2.0
#include "util/units.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <limits>

namespace rgpu {
namespace {

struct Unit {
    std::string_view name;
    double factor;
};

std::string quoted(std::string_view text) { return "\"" + std::string(text.substr(0, 40)) + "\""; }

// Splits "1.5G" into 1.5 and "G". False when there is no number in front.
bool split(std::string_view text, double &number, std::string_view &unit)
{
    const char *end = text.data() + text.size();
    auto [rest, failure] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
    if (failure != std::errc() || !std::isfinite(number) || number < 0) return false;
    unit = std::string_view(rest, static_cast<size_t>(end - rest));
    return true;
}

template <size_t N> const Unit *find(const Unit (&units)[N], std::string_view name)
{
    for (const Unit &unit : units)
        if (unit.name == name) return &unit;
    return nullptr;
}

constexpr double kKibi = 1024;
constexpr Unit kSizes[] = {
    {"", 1},
    {"B", 1},
    {"K", kKibi},
    {"KB", kKibi},
    {"KiB", kKibi},
    {"M", kKibi *kKibi},
    {"MB", kKibi *kKibi},
    {"MiB", kKibi *kKibi},
    {"G", kKibi *kKibi *kKibi},
    {"GB", kKibi *kKibi *kKibi},
    {"GiB", kKibi *kKibi *kKibi},
    {"T", kKibi *kKibi *kKibi *kKibi},
    {"TB", kKibi *kKibi *kKibi *kKibi},
    {"TiB", kKibi *kKibi *kKibi *kKibi},
};

constexpr Unit kTimes[] = {
    {"ms", 1}, {"s", 1e3}, {"m", 60e3}, {"h", 3600e3}, {"d", 86400e3},
};

}  // namespace

Result<uint64_t> parse_size(std::string_view text)
{
    double number;
    std::string_view name;
    const Unit *unit = split(text, number, name) ? find(kSizes, name) : nullptr;
    if (!unit || number * unit->factor > 9e18)
        return error(ErrorKind::invalid, "%s is no size: write a number and K, M, G or T, like 2G",
                     quoted(text).c_str());
    return static_cast<uint64_t>(number * unit->factor);
}

std::string format_size(uint64_t bytes)
{
    const char *names[] = {"", "K", "M", "G", "T"};
    size_t n = 0;
    while (bytes && bytes % 1024 == 0 && n + 1 < std::size(names)) {
        bytes /= 1024;
        ++n;
    }
    return std::to_string(bytes) + names[n];
}

Result<Milliseconds> parse_duration(std::string_view text)
{
    double number;
    std::string_view name;
    const Unit *unit = split(text, number, name) ? find(kTimes, name) : nullptr;
    if (!unit && !name.empty()) unit = nullptr;
    if (!unit && text == "0") return Milliseconds(0);
    if (!unit || number * unit->factor > 9e15)
        return error(ErrorKind::invalid,
                     "%s is no time: write a number and ms, s, m, h or d, like 30s",
                     quoted(text).c_str());
    return Milliseconds(static_cast<int64_t>(std::llround(number * unit->factor)));
}

std::string format_duration(Milliseconds time)
{
    int64_t count = time.count();
    if (count == 0) return "0";
    for (size_t i = std::size(kTimes); i-- > 0;) {
        auto factor = static_cast<int64_t>(kTimes[i].factor);
        if (count % factor == 0)
            return std::to_string(count / factor) + std::string(kTimes[i].name);
    }
    return std::to_string(count) + "ms";
}

Result<int> parse_share(std::string_view text)
{
    double number;
    std::string_view unit;
    bool good = split(text, number, unit) && (unit.empty() || unit == "%");
    double hundredths = good ? (unit == "%" ? number : number * kWholeGpu) : 0;
    double whole = std::round(hundredths);
    if (!good || whole < 1 || whole > kWholeGpu || std::fabs(hundredths - whole) > 1e-6)
        return error(ErrorKind::invalid,
                     "%s is no share of a GPU: write a fraction from 0.01 to 1, like 0.5, or 50%%",
                     quoted(text).c_str());
    return static_cast<int>(whole);
}

Result<ShareRange> parse_share_range(std::string_view text)
{
    size_t dash = text.find('-');
    if (dash == text.npos || dash == 0) {
        Result<int> share = parse_share(text);
        if (!share) return std::move(share).error();
        return ShareRange{*share, *share};
    }
    // "30-100": a most above 1 says that both are percent.
    Result<int64_t> least = parse_integer(text.substr(0, dash), 0, kWholeGpu),
                    most = parse_integer(text.substr(dash + 1), 2, kWholeGpu);
    ShareRange range;
    if (least && most) {
        range = {static_cast<int>(*least), static_cast<int>(*most)};
    } else {
        std::string_view low = text.substr(0, dash);
        Result<int> a = low == "0" || low == "0%" ? Result<int>(0) : parse_share(low);
        Result<int> b = parse_share(text.substr(dash + 1));
        if (!a || !b)
            return error(
                ErrorKind::invalid,
                "%s is no range of shares: write the least and the most, like 0.3-1 or 30-100",
                quoted(text).c_str());
        range = {*a, *b};
    }
    if (range.least > range.most)
        return error(ErrorKind::invalid, "%s: the least comes first, like 30-100",
                     quoted(text).c_str());
    return range;
}

std::string share_text(int least, int most)
{
    return least == most ? std::to_string(least) + "%"
                         : std::to_string(least) + "-" + std::to_string(most) + "%";
}

std::string human_size(uint64_t bytes)
{
    const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    auto size = static_cast<double>(bytes);
    while (size >= 1024 && unit + 1 < std::size(units)) {
        size /= 1024;
        ++unit;
    }
    char text[32];
    snprintf(text, sizeof text, unit ? "%.1f %s" : "%.0f %s", size, units[unit]);
    return text;
}

Result<int64_t> parse_integer(std::string_view text, int64_t low, int64_t high)
{
    int64_t number;
    const char *end = text.data() + text.size();
    auto [rest, failure] = std::from_chars(text.data(), end, number);
    if (failure != std::errc() || rest != end || number < low || number > high)
        return error(ErrorKind::invalid, "%s is no whole number from %lld to %lld",
                     quoted(text).c_str(), static_cast<long long>(low),
                     static_cast<long long>(high));
    return number;
}

}  // namespace rgpu
