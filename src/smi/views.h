// SPDX-License-Identifier: Apache-2.0
// nvidia-smi's other outputs, as text.
#pragma once

#include <string>
#include <vector>

#include "smi/nvml_library.h"
#include "smi/options.h"

namespace rgpu::smi {

// Without arguments.
std::string table(const std::vector<nvmlDevice_t> &devices);
// -L
std::string list(const std::vector<nvmlDevice_t> &devices);
// --query-gpu and --query-compute-apps. Fails with the name of a field that there is not.
Result<std::string> query(const std::vector<nvmlDevice_t> &devices, const Options &options);
// topo -m
std::string topology(const std::vector<nvmlDevice_t> &devices);
// --version
std::string versions();
std::string help();
std::string help_query_gpu();
std::string help_query_compute_apps();

}  // namespace rgpu::smi
