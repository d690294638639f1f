// SPDX-License-Identifier: Apache-2.0
// Starting a program as rgpud's own user, with nothing of rgpud left in it. Workers of others:
// spawner.h.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "util/child.h"
#include "util/fd.h"
#include "util/result.h"
#include "util/units.h"

namespace rgpu::serverd {

using Environment = std::map<std::string, std::string>;

struct Launch {
    std::vector<std::string> command;  // command[0] is a path
    Environment environment;           // all of it
    std::vector<int> descriptors;      // become 3, 4, 5 ... in this order
    std::vector<int>
        cpus;         // it is bound to; empty, or where the kernel has none of them: it is not
    int output = -1;  // becomes stdout; -1: /dev/null
    int errors = -1;  // becomes stderr; -1: rgpud's
    ProcessLimits limits{};  // of the process itself, where there are no cgroups
};

// Starts it in a session of its own, with signals as at birth, no_new_privs, and
// no other descriptor. Fails when the program cannot be started, exec included. The caller waits
// for the process.
Result<pid_t> launch(const Launch &launch);

// Runs it to its end and returns its stdout. Fails when it ends with another status than 0, prints
// more than `limit` bytes, or has not ended in time (it is killed then).
Result<std::string> output_of(Launch launch, Milliseconds timeout, size_t limit);

}  // namespace rgpu::serverd
