// What the client knows of memory: which addresses are the server's, which are pinned here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "calls/cuda_api.h"
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
    bool allocated = false;  // by us (cuMemHostAlloc), else registered
    HandleId context = 0;
    CUdevice device = 0;
    bool sync_memops = false;
};

// Remembers device memory that a call of the current context gave. Any thread, like all here.
void note_allocation(CUdeviceptr base, size_t bytes, bool mapped = false);
// The mapped pieces that lie in a range may be accessed now, or no longer.
void note_access(CUdeviceptr base, size_t bytes, bool allowed);
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
void forget_allocations(HandleId context);

// Of several servers the one that calls go to is looked at first.
std::optional<DeviceRange> find_device(CUdeviceptr address);
// Whether it is memory of that server.
bool is_known_here(CUdeviceptr address);
std::optional<HostRange> find_host(const void *address);

// Where several servers (servers.h) are: whose memory an address is, and a context of it; nothing
// for what is no device memory.
struct AddressOwner {
    unsigned server = 0;
    HandleId context = 0;
};
std::optional<AddressOwner> owner_of_address(CUdeviceptr address);
// Whether bytes there are memory, or reserved addresses, of another server than the calls' own.
bool taken_elsewhere(CUdeviceptr base, size_t bytes);
// Addresses that cuMemAddressReserve gave; forgets those that begin at `base`.
void note_reservation(CUdeviceptr base, size_t bytes);
void forget_reservation(CUdeviceptr base);

// True when these addresses were reserved here for the server's memory.
bool in_reserved_range(CUdeviceptr address, size_t bytes);

// True for an address that means memory of the server, shared memory too.
bool is_device_address(CUdeviceptr address);

// True for bytes that are no device memory, lie where some was, and are none of the program's
// either: the program has freed them.
bool is_freed(CUdeviceptr address, size_t bytes);

// True for bytes that a copy may touch as device memory: not past the end of the allocation they
// begin in. Pinned memory is shared from then on.
bool is_device_range(CUdeviceptr address, size_t bytes);

// Copies of plain ranges in a stream, for all calls that copy. With `wait` the bytes are there on
// return; to the device: they are taken from where they are, and the program may change them.
CUresult copy_to_device(CUdeviceptr to, const void *from, size_t bytes, CUstream stream, bool wait);
CUresult copy_on_device(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
CUresult copy_to_host(void *to, CUdeviceptr from, size_t bytes, CUstream stream, bool wait);

// When a copy of a box is over for the caller: always, as CUDA says for the memory it goes to, or
// not at all.
enum class CopyWait { always, as_memory_says, never };
// Copies between the program's memory and the server's, or within either.
CUresult copy_box(const CUDA_MEMCPY3D &, CUstream stream, CopyWait);

// Device of the calling thread's context, -1 with none.
CUdevice current_device();

}  // namespace rgpu::interpose
