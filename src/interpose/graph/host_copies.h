// SPDX-License-Identifier: Apache-2.0
// A graph's copies to and from the program's memory.
//
// The server's graph cannot reach that memory, so its copy node goes to or from a block of device
// memory, the shadow. Whoever launches the graph sends the program's bytes into the shadows before,
// and fetches what lies in them after. Shadows of equal boxes of host memory are one, and live as
// long as their context.
#pragma once

#include "interpose/mirror/addresses.h"
#include "interpose/stream/copies.h"

namespace rgpu::interpose {

struct HostCopy {
    CUDA_MEMCPY3D transfer{};  // between the program's memory and the shadow
    bool to_device = false;
};

// Puts a shadow in the place of a side that is the program's memory; makes it if it is new.
CUresult in_server_memory(CUDA_MEMCPY3D &);
// The way back: what the program gave. The copy that belongs to it, or null when it is none of the
// program's memory.
const HostCopy *in_program_memory(CUDA_MEMCPY3D &);
// False as long as no graph copies the program's memory: then nobody has to look.
bool any_host_copy();

}  // namespace rgpu::interpose
