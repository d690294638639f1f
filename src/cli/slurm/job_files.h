// SPDX-License-Identifier: Apache-2.0
// A job's files on its node, below [slurm] rundir: written by root, in folders that all may pass.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <string>

#include "util/result.h"

namespace rgpu::cli {

inline constexpr mode_t kLeaseMode = 0400;  // the job's user alone: it holds the secrets
inline constexpr mode_t kErrorMode = 0444;

// "creating /run/rgpu/17: No such file or directory": what errno says.
Error failed(const char *doing, const std::string &path);

std::string folder_of(const std::string &path);

// The file appears whole, or not at all, and never with more rights than it ends with. Makes its
// folder, with those above it.
Result<void> write_file(const std::string &path, const std::string &text, uid_t owner, mode_t mode);

}  // namespace rgpu::cli
