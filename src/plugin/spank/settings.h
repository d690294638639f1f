// SPDX-License-Identifier: Apache-2.0
// The plugin's own settings: the arguments behind its path in plugstack.conf.
#pragma once

#include <string>
#include <string_view>

#include "util/defaults.h"
#include "util/result.h"

namespace rgpu::plugin {

struct Settings {
    std::string rundir = defaults::kRundir;  // %n in it stands for the node's name
    std::string interposer;                  // folder of our libcuda.so.1
    std::string libpath;                     // folders behind it, separated by colons; may be empty
    std::string rgpu = "rgpu";  // the program that fetches leases, and ends a job whose slurmstepd
                                // died
    std::string conf;           // the rgpu.conf that it reads; empty: its own default
    std::string devices = "yes";  // no: tasks see no device files
};

// ErrorKind::invalid for an argument that is not NAME=VALUE with one of the names above.
Result<Settings> parse_settings(int count, char **arguments);

// The value of LD_LIBRARY_PATH that finds our driver first: interposer, libpath, then what was
// there (without a second copy of the first two, so that nested steps do not make it grow).
std::string library_path(const Settings &settings, std::string_view present);

}  // namespace rgpu::plugin
