// SPDX-License-Identifier: Apache-2.0
// What the calls of memory share: numbers of memory where several servers are, and descriptors that
// were closed.
#pragma once

#include "calls/cuda_api.h"
#include "interpose/state/servers.h"

namespace rgpu::interpose {

// A driver's handle of memory is any number to us: where several servers are, its highest byte says
// whose it is.
inline constexpr int kServerShift = 56;
inline constexpr CUmemGenericAllocationHandle kOwnBits = (1ull << kServerShift) - 1;

inline CUmemGenericAllocationHandle memory_for_program(CUmemGenericAllocationHandle h)
{
    return spanning() ? h | CUmemGenericAllocationHandle{here()} << kServerShift : h;
}
// The server's handle; `at` goes there.
inline CUmemGenericAllocationHandle memory_for_server(CUmemGenericAllocationHandle h, At &at)
{
    if (!spanning()) return h;
    const auto server = static_cast<unsigned>(h >> kServerShift);
    if (server < server_count() && server != here()) at.go(server);
    return h & kOwnBits;
}

// Tells servers of memory whose descriptors all processes have closed since: they keep it until
// then. `most` descriptors are looked at.
void tell_closed(size_t most);
inline constexpr size_t kSomeClosed = 16, kAllClosed = SIZE_MAX;

}  // namespace rgpu::interpose
