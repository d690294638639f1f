// SPDX-License-Identifier: Apache-2.0
// A command that rgpu starts sees the leased GPUs as devices of its node (view/show.h).
#pragma once

#include <string>

#include "cli/parts/child.h"

namespace rgpu::cli {

// Mounts them for the command alone: as root in a mount namespace, for others in a user namespace.
// Where the kernel allows neither, one line on stderr says what follows and what helps.
Preparation device_view(const std::string &lease_file);

}  // namespace rgpu::cli
