// SPDX-License-Identifier: Apache-2.0
// What scontrol show config prints.
#pragma once

#include <string>
#include <string_view>

namespace rgpu::slurm {

// NAME = value in scontrol show config; NAME[0] = value where there may be several (the prologs, in
// Slurm 24.11).
std::string setting(std::string_view shown, std::string_view name);

}  // namespace rgpu::slurm
