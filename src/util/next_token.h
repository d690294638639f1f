// SPDX-License-Identifier: Apache-2.0
// Lists in text, taken apart from the front.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rgpu {

// What stands before the first of `separators`, or all; `rest` is what is behind it.
inline std::string_view next_token(std::string_view &rest, std::string_view separators)
{
    size_t end = rest.find_first_of(separators);
    std::string_view token = rest.substr(0, end);
    rest = end == rest.npos ? std::string_view{} : rest.substr(end + 1);
    return token;
}

// All of the list, but what is empty.
inline std::vector<std::string> tokens(std::string_view list, std::string_view separators)
{
    std::vector<std::string> out;
    while (!list.empty())
        if (std::string_view token = next_token(list, separators); !token.empty())
            out.emplace_back(token);
    return out;
}

// Whether it is one of a list with commas, as slurm.conf has them.
inline bool has_token(std::string_view list, std::string_view token)
{
    while (!list.empty())
        if (next_token(list, ",") == token) return true;
    return false;
}

}  // namespace rgpu
