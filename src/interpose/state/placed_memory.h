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
//
// Memory of the process: what throws std::bad_alloc has changed nothing here, and sent nothing that
// says so. freed() and forget_context() need none.
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

// Whole pages of a device (by the server's number of it) for pools that are divided up here
// (stream/pools.h): of no context. Up to 32 MiB without a round trip, where there is credit.
// Nothing where the server is to place it. Nobody holds a lock that the calls below take.
std::optional<CUresult> take_pages(ServerSession &, int device, size_t bytes, uint64_t &address);
// Some of them back, which nothing uses any more; of what was larger all.
void give_pages(ServerSession &, int device, uint64_t address, size_t bytes);
// What pools do when memory is lacking, and every 0.1 s from now on as long as `look` says so.
struct PoolCalls {
    bool (*give_back)(ServerSession &);  // pages that are not used; whether there were any
    bool (*look)(ServerSession &);
};
void watch_pools(ServerSession &, const PoolCalls &);

}  // namespace rgpu::interpose::placed
