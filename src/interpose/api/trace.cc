// SPDX-License-Identifier: Apache-2.0
// Where trace lines go.
#include "interpose/api/trace.h"

#include <unistd.h>

#include <cstdlib>

namespace rgpu::interpose {

bool tracing()
{
    static const bool on = [] {
        const char *v = getenv("RGPU_TRACE");
        return v && *v && *v != '0';
    }();
    return on;
}

bool observing()
{
    static const bool on = tracing() || counting();
    return on;
}

void trace_line(std::string_view symbol, const std::string &arguments, CUresult result,
                double microseconds)
{
    const char *name = calls::error_name(result);
    char tail[128];
    snprintf(tail, sizeof tail, ") = %s <%.1f us>\n", name ? name : "unknown error", microseconds);
    std::string line = "rgpu trace " + std::to_string(gettid()) + ": " + std::string(symbol) + "(" +
                       arguments + tail;
    if (write(STDERR_FILENO, line.data(), line.size()) < 0) return;  // nowhere to complain
}

}  // namespace rgpu::interpose
