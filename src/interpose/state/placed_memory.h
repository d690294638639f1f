// SPDX-License-Identifier: Apache-2.0
// Device memory at addresses that are chosen here, so that to allocate and to free it needs no
// answer (doc/addresses.md).
//
// A server leaves a part of its band to this client (wire/bands.h), and gives it pages as credit:
// memory is given out only against pages that the server has already. When they run out more are
// asked for, and what the server says then is what the program gets. What lies unused for a moment
// goes back, as other processes of the lease may need it.
//
// Any thread. The order of frames is the proof: the one that frees an address is sent before the
// address is given out again.
#pragma once

#include <cstddef>
#include <optional>

#include "calls/cuda_api.h"
#include "interpose/link/server_session.h"
#include "interpose/state/handles.h"

namespace rgpu::interpose::placed {

// Before the first call of a session.
void begin(ServerSession &);

// Memory for the current context at its server, and the frame that says so. Nothing where the
// server is to place it: it does not know this or has no band, the memory is large, or the calling
// thread's calls wait.
std::optional<CUresult> allocate(CUdeviceptr *out, size_t bytes);

// Whether allocate() gave the address, at the server that calls go to.
bool has(CUdeviceptr base);
// A frame that frees it was sent. `at_once`: the server has then freed it when it takes the next
// frame; else it is asked before the addresses are given out again.
void freed(CUdeviceptr base, bool at_once);
// A context has ended, or is about to.
void forget_context(HandleId context);

}  // namespace rgpu::interpose::placed
