// Lists in text, taken apart from the front.
#pragma once

#include <string_view>

namespace rgpu {

// What stands before the first of `separators`, or all; `rest` is what is behind it.
inline std::string_view next_token(std::string_view &rest, std::string_view separators)
{
    size_t end = rest.find_first_of(separators);
    std::string_view token = rest.substr(0, end);
    rest = end == rest.npos ? std::string_view{} : rest.substr(end + 1);
    return token;
}

}  // namespace rgpu
