// SPDX-License-Identifier: Apache-2.0
// The name by which a software GPU is known where only its name is: in leases, and to programs.
#pragma once

namespace rgpu {

inline constexpr const char *kSoftwareGpuName = "rgpu software GPU";

}  // namespace rgpu
