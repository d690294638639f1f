// SPDX-License-Identifier: Apache-2.0
// nvidia-smi's command line.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "util/result.h"

namespace rgpu::smi {

// As NVIDIA's page has them.
enum Exit : int {
    kOk = 0,
    kWrongArgument = 2,
    kNotAvailable = 3,
    kNoPermission = 4,
    kNotFound = 6,
    kNoDriver = 9,
    kNoLibrary = 12,
    kGpuLost = 15,
    kOther = 255,
};

struct Options {
    enum Verb {
        table,
        list,
        report,
        query_gpu,
        query_compute_apps,
        topology,
        version,
        help,
        help_query_gpu,
        help_query_compute_apps,
        modify,  // what only who owns the GPUs may
    } verb = table;
    std::string devices;               // -i: indexes, UUIDs, addresses, with commas; empty: all
    std::vector<std::string> fields;   // of a query
    std::vector<std::string> display;  // -d: sections of the report; empty: all
    bool header = true, units = true, xml = false;
    std::optional<unsigned> loop_ms;
    std::string file;  // -f
};

Result<Options> parse(int count, char **arguments);

}  // namespace rgpu::smi
