// Synchronous copies to the device. They are posted: what the program gives to the same stream later, or to one that waits
// for it, comes behind them. Where others may look at the memory sooner, the program waits. Any thread.
#pragma once

#include "calls/cuda_api.h"

namespace rgpu::interpose::settled {

// Behind a synchronous copy in this stream, a default one.
CUresult after_copy(CUstream stream);
// From now on streams exist that the legacy default stream does not wait for, or other processes have this one's memory.
// Waits for the copies under way.
void others_look();

}  // namespace rgpu::interpose::settled
