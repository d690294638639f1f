// SPDX-License-Identifier: Apache-2.0
// What NVML tells of the host's GPUs, for the health checks: rgpud itself opens no driver.
#pragma once

#include <string>

namespace rgpu::worker {

// JSON as health/host.h reads it. Where $RGPU_DRIVER is the software GPU's, or NVML is not here, it
// says why nothing is read. Starts no context; what NVML does not tell of a GPU is left out.
std::string readings_json();

}  // namespace rgpu::worker
