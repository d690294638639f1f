// Text from a printf format.
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

}  // namespace rgpu
