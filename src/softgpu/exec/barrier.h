// What the block must tell its barriers; see barrier.cc.
#pragma once

#include "softgpu/exec/block.h"

namespace rgpu::softgpu::exec {

// The thread has ended (and is no longer among Block::live): barriers that waited only for it open.
void barriers_thread_ended(Fiber &);

}  // namespace rgpu::softgpu::exec
