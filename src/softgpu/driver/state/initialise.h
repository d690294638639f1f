// SPDX-License-Identifier: Apache-2.0
// cuInit: reads the environment, joins the GPU host and makes the devices with their primary
// contexts.
#pragma once

#include "calls/cuda_api.h"

namespace rgpu::softgpu::driver {

// Any thread; the second call finds all done. A child of a fork gets NOT_INITIALIZED for ever: the
// driver's threads stayed behind. What went wrong stands on stderr.
CUresult initialise();

// It has succeeded in this process (not in the one that forked it).
bool is_initialised();

}  // namespace rgpu::softgpu::driver
