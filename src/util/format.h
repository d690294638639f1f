// SPDX-License-Identifier: Apache-2.0
// Text from a printf format, and numbers with their nouns.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <string>

namespace rgpu {

// Cut at 511 bytes. Any thread.
[[gnu::format(printf, 1, 2)]] inline std::string format(const char *pattern, ...)
{
    char buffer[512];
    va_list arguments;
    va_start(arguments, pattern);
    vsnprintf(buffer, sizeof buffer, pattern, arguments);
    va_end(arguments);
    return buffer;
}

// "1 GPU", "2 GPUs": of nouns that take an "s". Any thread.
inline std::string counted(size_t count, const char *noun)
{
    return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace rgpu
