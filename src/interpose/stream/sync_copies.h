// SPDX-License-Identifier: Apache-2.0
// Synchronous copies to the device, and sets. They are posted: what the program gives to the same
// stream later, or to one that waits for it, comes behind them. Where others may look at the memory
// sooner, the program waits. Any thread.
#pragma once

#include "calls/cuda_api.h"

namespace rgpu::interpose::sync_copies {

// Behind a synchronous copy in this stream, a default one.
CUresult after_copy(CUstream stream);
// Behind a synchronous set of memory, or a copy within the device to it: the program itself looks
// at what it shares with kernels (CUDA Driver API, "API synchronization behavior").
CUresult after_change(CUdeviceptr memory, CUstream stream);
// From now on streams exist that the legacy default stream does not wait for, or other processes
// have this one's memory. Waits for the copies under way.
void others_look();

}  // namespace rgpu::interpose::sync_copies
