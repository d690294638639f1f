// SPDX-License-Identifier: Apache-2.0
#include "rgpud/ports/complaints.h"

#include <cstdarg>
#include <cstdio>
#include <utility>

#include "util/log.h"

namespace rgpu::serverd {

void Complaints::warn(const char *format, ...)
{
    const Time time = now();
    std::lock_guard lock(mutex_);
    if (lines_.due(time) > time) {
        ++left_out_;
        return;
    }
    lines_.take(time);
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (const size_t count = std::exchange(left_out_, 0))
        log_warning("%s: %zu more were refused, and the log does not name them", of_, count);
    log_warning("%s: %s", of_, text);
}

}  // namespace rgpu::serverd
