// SPDX-License-Identifier: Apache-2.0
// How an rgpud that root starts stops being root.
#pragma once

#include "rgpud/host/account.h"
#include "util/config.h"
#include "util/result.h"

namespace rgpu::serverd {

// [rgpud] user, or where there is no such account the first of worker_uids.
Account rgpud_account(const RgpudConfig &config);

// Makes state_dir, and gives it and what an rgpud that was root left to that user. What is the
// spawner's stays root's.
Result<void> give_state(const RgpudConfig &config, const Account &account);

// Before the first thread: becomes that user for good. Of root's rights those are kept that this
// configuration needs: ports below 1024, and the kernel's log, where only root reads it, for the
// health checks.
Result<void> leave_root(const RgpudConfig &config, const Account &account);

}  // namespace rgpu::serverd
