// SPDX-License-Identifier: Apache-2.0
// Memory that an answered struct points to and that CUDA says belongs to a graph node.
#pragma once

#include <cstdint>
#include <vector>

#include "calls/handles.h"

namespace rgpu::interpose {

// Keeps `bytes` for the object until it is asked again and the answer has changed, or it ends;
// where they lie (aligned for any type; pointers at the front may be filled in). Any thread.
uint8_t *keep(calls::HandleId owner, std::vector<uint8_t> bytes);
// The object has ended.
void release_node_memory(calls::HandleId owner);

}  // namespace rgpu::interpose
