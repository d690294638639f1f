// SPDX-License-Identifier: Apache-2.0
// Which CUresult a failure of ours is: the one table of it.
#pragma once

#include "calls/cuda_api.h"
#include "util/result.h"

namespace rgpu::interpose {

// What was being done when it failed.
enum class Doing { connecting, loading_image };

CUresult result_of(ErrorKind, Doing);

// For a catch block only: the result for the exception that it holds. Says what was short, once for
// each kind; `where` is what the program called.
[[gnu::cold]] CUresult result_of_exception(const char *where) noexcept;

// Says, once, that this process gets no further thread, and what helps. `why`: the system's reason.
[[gnu::cold]] void say_no_thread(const char *why) noexcept;

}  // namespace rgpu::interpose
