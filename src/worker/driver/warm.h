// SPDX-License-Identifier: Apache-2.0
// What a worker does before its client comes: the first GPU's primary context is there already.
//
// The client must not be able to tell. Until it retains that context itself, or does what needs it
// gone (resets it, changes its flags), the driver's count of retains is one too high; then it is
// put right.
#pragma once

#include "worker/driver/driver.h"

namespace rgpu::worker {

// Retains the primary context of device 0 through the functions that driver() has so far, and puts
// its own in front of them. A context that cannot be made is none: the client learns why when it
// asks for it. Before the client comes, once.
void prepare_context();

}  // namespace rgpu::worker
