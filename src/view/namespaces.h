// SPDX-License-Identifier: Apache-2.0
// A mount namespace for the calling process alone, in which view/show.h can mount.
//
// The process must have one thread. Nothing that is mounted there is seen elsewhere, and what is
// mounted elsewhere later (by an automounter, say) is seen there.
#pragma once

#include "util/result.h"

namespace rgpu::view {

// For root, who may mount.
Result<void> enter_mount_namespace();

// For everybody else: in a user namespace where the process is who it was, and may mount. Programs
// that it starts have no more rights than before, and cannot become another user (sudo). Where the
// kernel takes the right to mount away, this succeeds and the mounting fails.
Result<void> enter_user_namespace();

}  // namespace rgpu::view
