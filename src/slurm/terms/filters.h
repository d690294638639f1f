// SPDX-License-Identifier: Apache-2.0
// Which GPUs of the pool will do: the options that say so, and their values.
//
// One row an option; the SPANK plugin registers the rows, job_submit judges by them, and the
// controller's prolog asks the pool for them. `rgpu run` has the same ones under its own names and
// uses the same parsers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "util/result.h"

namespace rgpu::slurm {

// Empty and zero fields do not filter. Of each list one is enough.
struct Filters {
    std::vector<std::string> servers;
    std::vector<std::string> names;  // a part of the GPU's name, whatever the case
    std::vector<std::string> uuids;
    uint64_t memory = 0;         // at least so many bytes in all
    int compute_capability = 0;  // at least; 80 is 8.0
    int cuda = 0;                // the driver's CUDA version, at least; 12040 is 12.4
    std::string driver;          // the driver's release, at least: "570.86.10"
};

struct FilterOption {
    const char *name;      // as typed, without dashes; Slurm's variables have _ for -
    const char *argument;  // as --help names it
    const char *help;
    Result<void> (*add)(std::string_view value, Filters &out);
};

std::span<const FilterOption> filter_options();

// What the option `name` says is added to `out`; errors name the option.
Result<void> add_filter(const FilterOption &option, std::string_view value, Filters &out);

// "8.0" is 80, "12.4" is 12040.
Result<int> parse_compute_capability(std::string_view text);
Result<int> parse_cuda_version(std::string_view text);
// The text itself where it is one: "570", "570.86.10" (util/driver_release.h).
Result<std::string> parse_driver_release(std::string_view text);

// A type as Slurm writes it (nvidia_a100-sxm4-80gb) as a part of a GPU's name: its _ are spaces
// there.
std::string name_of_type(std::string_view type);

// The GPU of this name is of the type; of the empty type all are.
bool is_of_type(std::string_view gpu, std::string_view type);

// `part` stands somewhere in `name`, whatever the case.
bool holds(std::string_view name, std::string_view part);

}  // namespace rgpu::slurm
