// SPDX-License-Identifier: Apache-2.0
// Work that a call gives to a stream: it is checked, then becomes a node where the stream is being
// captured, and else a task in the stream's order.
//
// Any thread. Errors are CUDA's for the call; with one of them nothing was given to the stream.
#pragma once

#include "calls/cuda_api.h"
#include "softgpu/driver/state/copy.h"
#include "softgpu/driver/state/launch.h"

namespace rgpu::softgpu::driver {

class Stream;

// Return when it is done. Not for streams that are being captured.
CUresult copy_now(Stream &, const Copy &);
CUresult fill_now(Stream &, const Fill &);

// As CUDA does: with pageable memory at an end, that memory is free for use when this returns.
CUresult copy_async(Stream &, const Copy &);
CUresult fill_async(Stream &, const Fill &);

// Compiles the kernel if it must. `as_named`: the function's handle in the call.
CUresult launch(Stream &, KernelLaunch, CUfunction as_named);

}  // namespace rgpu::softgpu::driver
