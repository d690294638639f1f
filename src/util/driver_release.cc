// SPDX-License-Identifier: Apache-2.0
#include "util/driver_release.h"

#include <array>
#include <optional>

namespace rgpu {
namespace {

constexpr size_t kNumbers = 4, kDigits = 6;

std::optional<std::array<int, kNumbers>> numbers_of(std::string_view text)
{
    std::array<int, kNumbers> out{};
    for (int &number : out) {
        std::string_view digits = text.substr(0, text.find('.'));
        if (digits.empty() || digits.size() > kDigits ||
            digits.find_first_not_of("0123456789") != digits.npos)
            return {};
        for (char digit : digits) number = number * 10 + (digit - '0');
        if (digits.size() == text.size()) return out;
        text.remove_prefix(digits.size() + 1);
    }
    return {};
}

}  // namespace

bool is_driver_release(std::string_view text) { return numbers_of(text).has_value(); }

bool is_older_release(std::string_view a, std::string_view b)
{
    return numbers_of(a) < numbers_of(b);
}

}  // namespace rgpu
