// SPDX-License-Identifier: Apache-2.0
// Work that goes on after a script of Slurm's has ended.
#pragma once

#include <functional>

namespace rgpu::cli {

// Does it in a process of its own, which nobody waits for; here, before it returns, where there can
// be none. What goes wrong is for the work itself to tell: stdout and stderr go nowhere.
void behind(const std::function<void()> &work);

}  // namespace rgpu::cli
