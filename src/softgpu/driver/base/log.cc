// SPDX-License-Identifier: Apache-2.0
#include "softgpu/driver/base/log.h"

#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>

namespace rgpu::softgpu::driver {

void complain(const char *format, ...)
{
    char line[2048] = "rgpu softgpu: ";
    int used = 14;
    va_list args;
    va_start(args, format);
    used += vsnprintf(line + used, sizeof line - used - 1, format, args);
    va_end(args);
    used = std::min<int>(used, sizeof line - 2);
    line[used++] = '\n';
    // One write, so that lines of several processes do not mix.
    if (write(STDERR_FILENO, line, used) < 0) return;
}

}  // namespace rgpu::softgpu::driver
