// SPDX-License-Identifier: Apache-2.0
// nvml.h with every version of a function declared under its own name, and exported.
#pragma once

#define NVML_NO_UNVERSIONED_FUNC_DEFS
#pragma GCC visibility push(default)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include <nvml.h>
#pragma GCC diagnostic pop
#pragma GCC visibility pop
