// SPDX-License-Identifier: Apache-2.0
// RGPU_STATS: what this process asked of the driver, told at its end. Counted where every call
// passes (entry.h) and where bytes leave and come (link/); no call has code of its own for it.
//
//   RGPU_STATS=1              a table on standard error
//   RGPU_STATS=/dir/%p.json   JSON in that file; %p is the process id
#pragma once

#include <cstddef>
#include <cstdint>

#include "calls/calls.h"
#include "wire/packing.h"

namespace rgpu::interpose {

// Set once, from the environment, before the first call; and whether it is told as JSON, in a file.
bool counting();
bool counting_to_file();

// One call of the program: what it answered, and its time in nanoseconds. What the calling thread
// has waited for since its last call is put to this one's account.
void count_call(calls::CallId id, CUresult result, uint64_t ns);

// How the connection carries bytes; a name that lives for ever. And over how many.
void note_transport(const char *name);
void note_connections(size_t n);
// The connection's side; any thread. Cheap enough to be always on.
void count_sent(size_t bytes);
void count_received(size_t bytes);
// Payloads that were packed: their bytes, and what was sent; what was received, and what it became.
void count_packed(wire::PackMethod, size_t bytes, size_t packed);
void count_unpacked(size_t packed, size_t bytes);
// The calling thread has waited for one answer of the server.
void count_round_trip(uint64_t ns);

}  // namespace rgpu::interpose
