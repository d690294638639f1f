// SPDX-License-Identifier: Apache-2.0
// What the block must tell its barriers. The operations themselves are rt_bar_* of abi.h, which
// barrier.cc defines; a barrier's state is in threads.h.
#pragma once

#include "softgpu/exec/fiber.h"

namespace rgpu::softgpu::exec {

// The thread has ended (and is no longer among Threads::live): barriers that waited only for it
// open.
void barriers_thread_ended(Fiber &);

}  // namespace rgpu::softgpu::exec
