// SPDX-License-Identifier: Apache-2.0
// Running a command under rgpu: signals passed on, its status passed back.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "util/result.h"
#include "util/units.h"

namespace rgpu::cli {

// Signals that rgpu passes on, or that end its waiting. From here on they are blocked in this
// process; a command that is started gets them unblocked.
void hold_signals();

// A held signal that would end rgpu and has come, or comes within this time, if any; it is taken.
std::optional<int> ending_signal(Milliseconds within = Milliseconds(0));

// What the child does before it becomes the command. Where that fails, `otherwise` is told, here,
// and the command runs without it.
struct Preparation {
    std::function<Result<void>()> in_child;
    std::function<void(const std::string &why)> otherwise;
};

// Runs the command to its end in this process's environment; returns its exit status, 128 + n
// when signal n ended it, kNotFound or kNotExecutable (told on stderr), or kOwnFailure. Signals
// that other processes sent here go to it, too (the terminal's own it gets by itself). `tick` is
// called about every `period` meanwhile.
int run_command(const std::vector<std::string> &command, Milliseconds period,
                const std::function<void()> &tick, const Preparation &preparation = {});

}  // namespace rgpu::cli
