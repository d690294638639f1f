// SPDX-License-Identifier: Apache-2.0
// The connection of this process: made at the first call that needs one.
#pragma once

#include "calls/calls.h"
#include "interpose/state/contexts.h"
#include "interpose/state/servers.h"

namespace rgpu::interpose {

// Connects at the first call, once for the whole process; later calls return the same result.
// On failure says why on standard error, once, and returns CUDA_ERROR_NO_DEVICE (no lease),
// CUDA_ERROR_SYSTEM_NOT_READY (server not reached) or CUDA_ERROR_NOT_PERMITTED (lease refused).
// In the child of a fork: CUDA_ERROR_NOT_INITIALIZED if the parent had called cuInit; else the
// child connects anew.
CUresult connect_once();

// What the server's driver is (13000 = 13.0), of several servers the oldest. Connects, so that it
// can be asked before cuInit; without a server the version that this library was built for.
int driver_version();
// Whether every server can carry this line of the table out, or the client alone does; true without
// a server.
bool server_has(calls::CallId id);

// What a call answers when session() is null: NOT_INITIALIZED, or why cuInit failed.
CUresult not_ready();
}  // namespace rgpu::interpose
