// SPDX-License-Identifier: Apache-2.0
// What an address of the program is: of state/ranges.h and of memory that kernels share with the
// program, together. Any thread.
#pragma once

#include "interpose/state/ranges.h"

namespace rgpu::interpose {

// Where several servers (servers.h) are: whose memory an address is, and a context of it; nothing
// for what is no device memory.
std::optional<AddressOwner> owner_of_address(CUdeviceptr address);
// Whether bytes there are memory, or reserved addresses, of another server than the calls' own.
bool taken_elsewhere(CUdeviceptr base, size_t bytes);

// True for an address that means memory of the server, shared memory too.
bool is_device_address(CUdeviceptr address);

// True for bytes that a copy may read, or write, as device memory: not past the end of the
// allocation they begin in. Pinned memory is mirrored from then on.
bool is_device_range(CUdeviceptr address, size_t bytes, Access = Access::read);

// Forgets all memory of a context that has ended.
void forget_allocations(HandleId context);

}  // namespace rgpu::interpose
