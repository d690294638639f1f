// SPDX-License-Identifier: Apache-2.0
// How much energy the host's GPUs have used, for rgpud, which itself opens no driver: what
// `rgpu-worker --energy` does.
//
// It answers each byte of descriptor 3 with a line on stdout, and ends with the descriptor's end:
//
//   UUID MILLIJOULES UUID MILLIJOULES ...   since the driver was loaded, as NVML counts it
//                                           (nvmlDeviceGetTotalEnergyConsumption, Volta and newer)
//   ! REASON                                there is no NVML: it has ended
//
// GPUs that do not tell are left out.
#pragma once

#include <string>

namespace rgpu::worker {

inline constexpr int kEnergyQuestions = 3;  // the descriptor

// Until the questions end. The exit status.
int serve_energy();

}  // namespace rgpu::worker
