// SPDX-License-Identifier: Apache-2.0
// The boundary between Slurm, which is C, and the plugins: no exception crosses it.
#pragma once

#include <exception>

#include "plugin/slurm.h"

namespace rgpu::plugin {

// What body returns, or failed, with one line in Slurm's log, where it throws.
template <class Body> int guard(const char *callback, int failed, Body &&body) noexcept
{
    try {
        return body();
    } catch (const std::exception &e) {
        slurm_error("rgpu: %s: %s", callback, e.what());
    } catch (...) {
        slurm_error("rgpu: %s: unknown exception", callback);
    }
    return failed;
}

}  // namespace rgpu::plugin
