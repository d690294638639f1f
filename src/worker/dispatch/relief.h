// SPDX-License-Identifier: Apache-2.0
// While the dispatcher waits in the driver, and a stream stands at a host function that the client
// runs, another thread takes from the client's frames what lets the stream go on: the word that the
// function is over, and what the function sees and changes of mirrored memory.
//
// NVIDIA's driver waits for all work of a context in calls of which CUDA does not say so: when a
// module is loaded, when a kernel is used for the first time (CUDA_MODULE_LOADING), when more work
// is queued than fits. If the dispatcher alone took that word, the call would wait for ever.
#pragma once

#include "worker/session/session.h"

namespace rgpu::worker {

// Once, when the first host function comes. Its thread lives as long as the process.
void start_relief(Session &);

}  // namespace rgpu::worker
