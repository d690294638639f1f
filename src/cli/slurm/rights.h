// SPDX-License-Identifier: Apache-2.0
// Whether this user may know what a command compares.
#pragma once

#include "util/config.h"
#include "util/result.h"

namespace rgpu::cli {

// Fails with `invalid` where the servers show this user no leases but his own: what follows from
// them would be false.
Result<void> sees_all_leases(const AuthConfig &auth);

}  // namespace rgpu::cli
