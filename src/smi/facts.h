// SPDX-License-Identifier: Apache-2.0
// What is told of a GPU or of a process: each a name and what is printed for it.
//
// One table serves --query-gpu, -q and the default table, so that all three say the same.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "smi/nvml_library.h"

namespace rgpu::smi {

// Nothing: this GPU does not tell ("N/A").
using Value = std::optional<std::string>;

struct Fact {
    std::string_view name, alias;  // as --query-gpu has them
    std::string_view unit;         // "MiB", "%"; empty for none
    Value (*of)(nvmlDevice_t);
};

// All that --query-gpu knows.
const std::vector<Fact> &facts();
// By name or alias; null where there is none.
const Fact *find_fact(std::string_view name);
// The value of a fact that there is, with its unit.
std::string told(std::string_view name, nvmlDevice_t device);
// Without.
Value bare(std::string_view name, nvmlDevice_t device);

struct Process {
    unsigned pid = 0;
    std::string name;
    Value memory;  // MiB
};
std::vector<Process> processes(nvmlDevice_t device);

// "2026/11/24 03:41:23.123", and "Tue Nov 24 03:41:23 2026".
std::string timestamp();
std::string date();
// "13.0"; empty where it is not known.
std::string cuda_version();

}  // namespace rgpu::smi
