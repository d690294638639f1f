// SPDX-License-Identifier: Apache-2.0
// Node lists as Slurm writes them: "cn[01-03,7],gpu1".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "util/result.h"

namespace rgpu::slurm {

// The names, in the list's order. Several brackets in a name multiply ("a[1-2]b[3-4]").
// ErrorKind::invalid for unbalanced brackets, ranges that are none, or more names than a cluster
// has (65536).
Result<std::vector<std::string>> expand_hostlist(std::string_view list);

}  // namespace rgpu::slurm
