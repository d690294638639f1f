// SPDX-License-Identifier: Apache-2.0
// What the client knows of addresses: which ranges are device memory, which are pinned memory of
// the program, and where each server's memory lies. Memory that kernels share with the program is
// in mirror/; mirror/addresses.h answers for both. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>

#include "calls/cuda_api.h"
#include "interpose/link/server_session.h"
#include "interpose/state/handles.h"

namespace rgpu::interpose {

struct DeviceRange {
    CUdeviceptr base = 0;
    size_t bytes = 0;
    HandleId context = 0;
    CUdevice device = 0;
    uint64_t buffer_id = 0;  // unique, for CU_POINTER_ATTRIBUTE_BUFFER_ID
    bool mapped = false;     // by cuMemMap: a piece of a range, not an allocation
    bool no_access = false;  // mapped, and cuMemSetAccess has not been called for it
    bool read_only = false;  // mapped, and cuMemSetAccess said so
    bool managed = false;
    bool imported = false;  // another process's (cuIpcOpenMemHandle)
    // CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, as it was set.
    bool sync_memops = false;
    bool graph = false;  // of a graph, whose next launch allocates it again: known when freed, too
};

struct HostRange {
    uintptr_t base = 0;
    size_t bytes = 0;
    unsigned flags = 0;
    bool allocated = false;  // by us (cuMemHostAlloc, cuMemMap), else registered
    HandleId context = 0;
    CUdevice device = 0;
    bool sync_memops = false;
    bool mapped = false;  // by cuMemMap
};

// Whose memory an address is, where several servers are (servers.h), and a context of it.
struct AddressOwner {
    unsigned server = 0;
    HandleId context = 0;
};

// Remembers device memory that a call of the current context gave.
void note_allocation(CUdeviceptr base, size_t bytes, bool mapped = false);
// The mapped pieces that lie in a range may be accessed in this way from now on.
void note_access(CUdeviceptr base, size_t bytes, CUmemAccess_flags);
// Forgets the mapped pieces that begin in a range.
void forget_mappings(CUdeviceptr base, size_t bytes);
void note_managed(CUdeviceptr base, size_t bytes);
void note_imported(CUdeviceptr base, size_t bytes);
void note_graph_memory(CUdeviceptr base, size_t bytes);
// False where no memory that is known holds the address.
bool note_sync_memops(CUdeviceptr address, bool set);
// Forgets what starts exactly at `base`; false when nothing does. A graph's memory stays known.
bool forget_allocation(CUdeviceptr base);
// Everything of a context that has ended.
void forget_ranges(HandleId context);
// Of several servers the one that calls go to is looked at first.
std::optional<DeviceRange> find_device(CUdeviceptr address);
// Whether it is memory of that server.
bool is_known_here(CUdeviceptr address);
std::optional<HostRange> find_host(const void *address);

// Memory of the program that is pinned from now on; forgets what begins at `base`, if `allocated`
// is as it was noted, or what cuMemMap put there.
void note_host(const HostRange &);
std::optional<HostRange> forget_host(uintptr_t base, bool allocated);
void forget_mapped_host(uintptr_t base);

// The owner of allocated or reserved addresses; nothing for what is neither.
std::optional<AddressOwner> owner_of_range(CUdeviceptr address);
// Whether bytes there are allocated, reserved or pinned for another server than the calls' own.
bool is_range_elsewhere(CUdeviceptr base, size_t bytes);
// Whether bytes from `address` on are allocated and may be read, or written. Nothing where no
// allocation is known: `address` is then the first such byte.
enum class Access : uint8_t { read, write };
std::optional<bool> is_allocated(CUdeviceptr &address, size_t bytes, Access);
// Whether the address lies where some server's memory does, or is allocated.
bool is_server_address(CUdeviceptr address);
// Whether the calls' server has said where its memory lies.
bool knows_place_of_memory();

// Addresses that cuMemAddressReserve gave; forgets those that begin at `base`.
void note_reservation(CUdeviceptr base, size_t bytes);
void forget_reservation(CUdeviceptr base);
// Whether cuMemAddressReserve gave all of these.
bool is_reserved(CUdeviceptr base, size_t bytes);

// Keeps the program from ever using an address that the server uses for device memory.
void reserve_device_range(const ServerSession &);
// True when these addresses were reserved here for the server's memory.
bool in_reserved_range(CUdeviceptr address, size_t bytes);

// True for bytes that are no device memory, lie where some was, and are none of the program's
// either: the program has freed them.
bool is_freed(CUdeviceptr address, size_t bytes);

// Held from before a server is asked for addresses until they are noted, here or in mirror/: two
// servers may give the same at the same time. Not where there is one. Inside the order of shared
// memory, outside of its tables.
std::unique_lock<std::mutex> hold_space();

}  // namespace rgpu::interpose
