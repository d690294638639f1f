// SPDX-License-Identifier: Apache-2.0
// One write(2) a message, so that lines of several processes do not mix.
#include "interpose/base/log.h"

#include <unistd.h>

#include <cstdarg>
#include <cstdio>

namespace rgpu::interpose {

void say(const char *format, ...)
{
    char line[2048] = "rgpu: ";
    constexpr int prefix = 6, room = sizeof line - prefix - 1;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line + prefix, room, format, args);
    va_end(args);
    if (n < 0) return;
    n = prefix + (n < room ? n : room - 1);
    line[n++] = '\n';
    if (write(STDERR_FILENO, line, static_cast<size_t>(n)) < 0) return;  // nowhere to complain
}

}  // namespace rgpu::interpose
