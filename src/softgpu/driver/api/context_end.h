// SPDX-License-Identifier: Apache-2.0
// How a context ends: with all that lives in it.
#pragma once

namespace rgpu::softgpu::driver {

class Context;

// Invalidates its captures, waits for its work, then takes away its streams, events, arrays,
// modules and memory. A primary context can be retained again. Any thread; what other threads call
// in the context meanwhile is as undefined as CUDA has it.
void end_context(Context &);

}  // namespace rgpu::softgpu::driver
