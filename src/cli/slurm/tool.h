// SPDX-License-Identifier: Apache-2.0
// Running Slurm's own commands: what no public header offers.
#pragma once

#include <string>
#include <vector>

#include "util/result.h"

namespace rgpu::cli {

// Runs the command, found by PATH, to its end; returns its stdout. Fails with its own words where
// it ends with another status than 0, and with `unsupported` where it is not installed.
Result<std::string> run_tool(const std::vector<std::string> &command);

}  // namespace rgpu::cli
