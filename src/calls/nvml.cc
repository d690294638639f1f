// SPDX-License-Identifier: Apache-2.0
#include "calls/nvml.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>

namespace rgpu::calls {
namespace {

// In the order of their names, as the lines are.
constexpr NvmlFunction kFunctions[] = {
#define FORWARD(name, parameters, software) {#name, parameters, software, -1},
#define PAIR(name, parameters, software, apart) {#name, parameters, software, apart},
#include "calls/nvml.def"
};

}  // namespace

const NvmlFunction *find_nvml(std::string_view name)
{
    auto found = std::find_if(std::begin(kFunctions), std::end(kFunctions),
                              [&](const NvmlFunction &f) { return f.name == name; });
    return found == std::end(kFunctions) ? nullptr : found;
}

std::vector<NvmlParameter> nvml_parameters(std::string_view text)
{
    std::vector<NvmlParameter> all;
    for (char c : text)
        if (c >= '0' && c <= '9')
            all.back().bytes = all.back().bytes * 10 + static_cast<uint32_t>(c - '0');
        else
            all.push_back({c, 0});
    return all;
}

std::vector<uint64_t> nvml_numbers(const NvmlFunction &f)
{
    std::vector<uint64_t> all;
    const char *next = f.software.data();  // a literal: strtoull() ends with it
    for (char *end = nullptr;; next = end) {
        const uint64_t number = strtoull(next, &end, 10);
        if (end == next) return all;
        all.push_back(number);
    }
}

}  // namespace rgpu::calls
