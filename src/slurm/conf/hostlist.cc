// SPDX-License-Identifier: Apache-2.0
// Expands node lists.
#include "slurm/conf/hostlist.h"

#include <charconv>
#include <cstdio>

namespace rgpu::slurm {
namespace {

constexpr size_t kMostNames = 65536;

Error wrong(std::string_view list)
{
    return error(ErrorKind::invalid, "node list '%.*s' is not understood",
                 static_cast<int>(std::min<size_t>(list.size(), 200)), list.data());
}

// Cuts rest at the first separator outside brackets.
std::string_view next_element(std::string_view &rest)
{
    int depth = 0;
    size_t end = 0;
    for (; end < rest.size() && !(rest[end] == ',' && depth == 0); ++end)
        depth += rest[end] == '[' ? 1 : rest[end] == ']' ? -1 : 0;
    std::string_view element = rest.substr(0, end);
    rest = end < rest.size() ? rest.substr(end + 1) : std::string_view{};
    return element;
}

// "01-03" to 01, 02, 03: the width of the first end is kept.
bool expand_range(std::string_view range, std::vector<std::string> &out)
{
    auto number = [](std::string_view text, unsigned long &value) {
        auto [stop, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
        return !text.empty() && ec == std::errc() && stop == text.data() + text.size();
    };
    std::string_view first = range.substr(0, range.find('-'));
    std::string_view last = first.size() == range.size() ? first : range.substr(first.size() + 1);
    unsigned long low, high;
    if (!number(first, low) || !number(last, high) || high < low || high - low >= kMostNames ||
        first.size() > 9)
        return false;
    for (unsigned long n = low; n <= high; ++n) {
        char text[32];
        snprintf(text, sizeof text, "%0*lu", static_cast<int>(first.size()), n);
        out.push_back(text);
    }
    return true;
}

// One element of the list, whose brackets after `at` are not expanded yet.
bool expand_element(const std::string &element, std::vector<std::string> &out)
{
    size_t open = element.find('[');
    if (open == element.npos) {
        bool good = !element.empty() && element.find(']') == element.npos &&
                    out.size() < kMostNames;
        if (good) out.push_back(element);
        return good;
    }
    size_t close = element.find(']', open);
    if (close == element.npos) return false;
    std::vector<std::string> numbers;
    std::string_view ranges = std::string_view(element).substr(open + 1, close - open - 1);
    do {
        if (!expand_range(next_element(ranges), numbers) || numbers.size() > kMostNames)
            return false;
    } while (!ranges.empty());
    for (const std::string &n : numbers)
        if (!expand_element(element.substr(0, open) + n + element.substr(close + 1), out))
            return false;
    return true;
}

}  // namespace

Result<std::vector<std::string>> expand_hostlist(std::string_view list)
{
    std::vector<std::string> out;
    std::string_view rest = list;
    while (!rest.empty())
        if (!expand_element(std::string(next_element(rest)), out)) return wrong(list);
    return out;
}

}  // namespace rgpu::slurm
