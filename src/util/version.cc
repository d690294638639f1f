#include "util/version.h"

namespace rgpu {

std::string version_line(const char *program)
{
    std::string line = std::string(program) + " " RGPU_VERSION;
    // The Makefile defines it for this file alone: a new commit compiles nothing else again.
    if (const std::string commit = RGPU_COMMIT; !commit.empty()) line += " (commit " + commit + ")";
    return line;
}

}  // namespace rgpu
