// What this process is to rgpu: its lease, its sessions, and the calling thread's contexts.
#pragma once

#include <cstdint>

#include "interpose/link/session.h"
#include "interpose/state/handles.h"

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

// The session after a successful cuInit, or null; of several the one that the calling thread's
// calls go to (servers.h).
Session *session();
// What a call answers when session() is null: NOT_INITIALIZED, or why cuInit failed.
CUresult not_ready();
// Called by cuInit once connect_once() succeeded.
void set_initialized();

// How many devices the program has, 0 before cuInit.
int device_count();
// The snapshot of device `d`, or null when there is no such device.
const wire::DeviceSnapshot *device(CUdevice d);

// The calling thread's stack of contexts (their handle numbers). current_context() is 0 with none.
HandleId current_context();
void set_current(HandleId context);  // replaces the top
void push_context(HandleId context);
HandleId pop_context();  // 0 when empty
// What a driver says of the current context before all else: INVALID_CONTEXT with none,
// CONTEXT_IS_DESTROYED.
CUresult context_state();
// A context that ends is no longer current for the caller. Elsewhere it stays, and calls answer
// that it is destroyed.
void forget_context(HandleId context);

// The calling thread's own default stream in its current context (cuda.h: CU_STREAM_PER_THREAD),
// made at first use. 0 when it cannot be made.
HandleId thread_stream();

}  // namespace rgpu::interpose
