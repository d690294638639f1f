// SPDX-License-Identifier: Apache-2.0
// What a process has of its host's files, in a mount namespace of its own.
#pragma once

#include <string>
#include <vector>

#include "util/result.h"

namespace rgpu::view {

// Only this process's mount namespace changes. The folders in `writable`, which must be there, stay
// as they are, and all else can be read only (Linux 5.12). /tmp and /var/tmp are empty, and /run,
// where services listen, has NVIDIA's alone: but for those that have something of `needed` below
// them.
Result<void> keep_from_host(std::vector<std::string> writable,
                            const std::vector<std::string> &needed);

}  // namespace rgpu::view
