// SPDX-License-Identifier: Apache-2.0
#include "util/version.h"

namespace rgpu {

const char *commit() { return RGPU_COMMIT; }

std::string version_line(const char *program)
{
    std::string line = std::string(program) + " " RGPU_VERSION;
    // The Makefile defines it for this file alone: a new commit compiles nothing else again.
    if (*commit()) line += std::string(" (commit ") + commit() + ")";
    return line;
}

}  // namespace rgpu
