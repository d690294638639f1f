// SPDX-License-Identifier: Apache-2.0
// What [slurm] over_quota needs of Slurm, compared with what is there. A pure function.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "slurm/check/compare.h"
#include "slurm/quotas/books.h"

namespace rgpu::slurm {

// `settings` is what scontrol show config prints, `qos` what sacctmgr says: nothing where it cannot
// be asked. `since_run` is how many seconds ago rgpu slurm preempt looked; nothing: it never did.
std::vector<Disagreement> compare_quotas(std::string_view settings,
                                         const std::optional<std::vector<Qos>> &qos,
                                         std::optional<int64_t> since_run);

}  // namespace rgpu::slurm
