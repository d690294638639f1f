// SPDX-License-Identifier: Apache-2.0
// Whether files have changed: text that differs when another file was put in the place of one of
// them, one was written to, or came or went. Any thread. Nothing here fails.
#pragma once

#include <sys/stat.h>

#include <span>
#include <string>

namespace rgpu {

inline std::string file_state(std::span<const std::string> paths)
{
    std::string all;
    for (const std::string &path : paths) {
        struct stat about {};
        if (stat(path.c_str(), &about) == 0)
            for (const int64_t number :
                 {static_cast<int64_t>(about.st_ino), int64_t{about.st_size},
                  int64_t{about.st_mtim.tv_sec}, int64_t{about.st_mtim.tv_nsec}})
                all += std::to_string(number) + " ";
        all += "\n";
    }
    return all;
}

}  // namespace rgpu
