// SPDX-License-Identifier: Apache-2.0
// nvidia-smi -q: all that is known, as a tree that is printed as text or XML.
#pragma once

#include <string>
#include <vector>

#include "smi/nvml_library.h"

namespace rgpu::smi {

struct Section {
    std::string name, value;  // with parts, it has no value
    std::vector<Section> parts;
};

// Of one GPU. `display` has names that -d takes (MEMORY, UTILIZATION ...); empty: all.
std::vector<Section> report_of(nvmlDevice_t device, const std::vector<std::string> &display);
// Whether -d knows it.
bool is_display(const std::string &name);

std::string report(const std::vector<nvmlDevice_t> &devices,
                   const std::vector<std::string> &display, bool xml);

}  // namespace rgpu::smi
