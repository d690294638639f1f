// SPDX-License-Identifier: Apache-2.0
// Files in memory, and where they are mapped.
#include "interpose/mirror/host_pieces.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "interpose/mirror/mirror.h"
#include "interpose/state/client.h"
#include "interpose/state/process.h"
#include "interpose/state/ranges.h"
#include "interpose/stub/by_hand.h"
#include "wire/mirror.h"

namespace rgpu::interpose::host_pieces {

namespace {

struct Memory {
    Memory(int f, size_t b, const CUmemAllocationProp &p) : file(f), bytes(b), properties(p) {}
    ~Memory() { close(file); }
    Memory(const Memory &) = delete;
    Memory &operator=(const Memory &) = delete;
    const int file;
    const size_t bytes;
    const CUmemAllocationProp properties;
    CUmemGenericAllocationHandle handle = 0;
    unsigned references = 0;  // the program's; memory that is mapped stays without
};

struct Mapping {
    size_t bytes = 0, offset = 0;
    std::shared_ptr<Memory> memory;
    CUmemAccess_flags host = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    std::map<int, CUmemAccess_flags> devices;
};

// No server's handle has these bits: its are pointers or small numbers, and where several servers
// are, the highest byte is a server's (api/virtual_memory.cc).
constexpr CUmemGenericAllocationHandle kOurs = 0xffull << 56;

struct HostPieces {
    std::mutex mutex;
    CUmemGenericAllocationHandle last = kOurs;
    std::map<CUmemGenericAllocationHandle, std::shared_ptr<Memory>> memories;
    std::map<CUdeviceptr, Mapping> mappings;
};

HostPieces &state() { return client_part<HostPieces>(Part::host_pieces); }

bool whole_granules(size_t bytes) { return bytes && bytes % wire::kMirrorGranule == 0; }

bool is_node(int id)
{
    return id == 0 ||
           (id > 0 &&
            !access(("/sys/devices/system/node/node" + std::to_string(id)).c_str(), F_OK));
}

// With the mutex held: the first mapping that ends behind the address.
auto from(HostPieces &s, CUdeviceptr address)
{
    auto it = s.mappings.upper_bound(address);
    if (it == s.mappings.begin()) return it;
    auto before = std::prev(it);
    return address - before->first < before->second.bytes ? before : it;
}

// Whether some of these bytes are mapped: a kernel would not see at one address what was written at
// the other.
bool is_mapped(const HostPieces &s, const Memory &m, size_t bytes, size_t offset)
{
    for (const auto &[address, there] : s.mappings)
        if (there.memory.get() == &m && there.offset < offset + bytes &&
            offset < there.offset + there.bytes)
            return true;
    return false;
}

}  // namespace

bool is_host(const CUmemLocation &l)
{
    return l.type == CU_MEM_LOCATION_TYPE_HOST || l.type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
           l.type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

bool is_host(CUmemGenericAllocationHandle handle) { return (handle & kOurs) == kOurs; }

CUresult check(const CUmemAllocationProp &p)
{
    if (p.type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
    if (p.location.type == CU_MEM_LOCATION_TYPE_HOST) return CUDA_SUCCESS;
    return p.location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA && is_node(p.location.id)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

void prefer_node(void *p, size_t bytes, const CUmemLocation &l)
{
    constexpr int kPreferred = 1;  // MPOL_PREFERRED of linux/mempolicy.h
    constexpr int kBits = sizeof(unsigned long) * CHAR_BIT;
    if (l.type != CU_MEM_LOCATION_TYPE_HOST_NUMA || l.id >= kBits) return;
    const unsigned long node = 1ul << l.id;
    syscall(SYS_mbind, p, bytes, kPreferred, &node, kBits, 0);
}

CUresult granularity(size_t *bytes, const CUmemAllocationProp &p)
{
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult r = check(p)) return r;
    *bytes = wire::kMirrorGranule;
    return CUDA_SUCCESS;
}

CUresult create(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp &p,
                unsigned long long flags)
{
    if (!session()) return not_ready();
    if (!handle || flags || !whole_granules(bytes)) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult r = check(p)) return r;
    if (p.requestedHandleTypes)
        return p.location.type == CU_MEM_LOCATION_TYPE_HOST ? CUDA_ERROR_INVALID_VALUE
                                                            : CUDA_ERROR_NOT_SUPPORTED;
    const int file = memfd_create("rgpu host memory", MFD_CLOEXEC);
    if (file < 0) return CUDA_ERROR_OUT_OF_MEMORY;
    const auto memory = std::make_shared<Memory>(file, bytes, p);
    if (ftruncate(file, static_cast<off_t>(bytes))) return CUDA_ERROR_OUT_OF_MEMORY;
    HostPieces &s = state();
    std::lock_guard lock(s.mutex);
    memory->references = 1;
    memory->handle = *handle = ++s.last;
    s.memories[*handle] = memory;
    return CUDA_SUCCESS;
}

CUresult release(CUmemGenericAllocationHandle handle)
{
    HostPieces &s = state();
    std::lock_guard lock(s.mutex);
    auto it = s.memories.find(handle);
    if (it == s.memories.end()) return CUDA_ERROR_INVALID_VALUE;
    if (!--it->second->references) s.memories.erase(it);
    return CUDA_SUCCESS;
}

CUresult properties(CUmemAllocationProp *p, CUmemGenericAllocationHandle handle)
{
    HostPieces &s = state();
    std::lock_guard lock(s.mutex);
    auto it = s.memories.find(handle);
    if (!p || it == s.memories.end()) return CUDA_ERROR_INVALID_VALUE;
    *p = it->second->properties;
    return CUDA_SUCCESS;
}

std::optional<CUmemGenericAllocationHandle> retain(CUdeviceptr address)
{
    HostPieces &s = state();
    std::lock_guard lock(s.mutex);
    auto it = from(s, address);
    if (it == s.mappings.end() || it->first > address) return std::nullopt;
    const auto &memory = it->second.memory;
    s.memories[memory->handle] = memory;
    memory->references++;
    return memory->handle;
}

CUresult map(CUdeviceptr base, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle)
{
    if (!whole_granules(bytes) || offset % wire::kMirrorGranule || !is_reserved(base, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    HostPieces &s = state();
    std::lock_guard lock(s.mutex);
    auto it = s.memories.find(handle);
    if (it == s.memories.end()) return CUDA_ERROR_INVALID_VALUE;
    const auto &memory = it->second;
    if (offset > memory->bytes || bytes > memory->bytes - offset) return CUDA_ERROR_INVALID_VALUE;
    const auto there = from(s, base);
    if (there != s.mappings.end() && there->first < base + bytes) return CUDA_ERROR_INVALID_VALUE;
    for (CUdeviceptr at = base; at < base + bytes; at += wire::kMirrorGranule)
        if (find_device(at)) return CUDA_ERROR_INVALID_VALUE;
    if (is_mapped(s, *memory, bytes, offset)) return CUDA_ERROR_NOT_SUPPORTED;
    if (CUresult r = mirror::map(base, bytes, memory->file, offset)) return r;
    prefer_node(reinterpret_cast<void *>(base), bytes, memory->properties.location);
    HostRange range{
        base, bytes, CU_MEMHOSTALLOC_DEVICEMAP, true, current_context(), current_device()};
    range.mapped = true;
    note_host(range);
    s.mappings[base] = {bytes, offset, memory, CU_MEM_ACCESS_FLAGS_PROT_NONE, {}};
    return CUDA_SUCCESS;
}

std::optional<Piece> next(CUdeviceptr address)
{
    HostPieces &s = state();
    std::lock_guard lock(s.mutex);
    auto it = from(s, address);
    return it == s.mappings.end() ? std::nullopt
                                  : std::optional(Piece{it->first, it->second.bytes});
}

CUresult unmap(CUdeviceptr base)
{
    // Kernels and copies that use it end before, as in CUDA, and what they wrote arrives.
    if (current_context())
        if (CUresult r = own::cuCtxSynchronize()) return r;
    HostPieces &s = state();
    std::lock_guard lock(s.mutex);
    if (!s.mappings.erase(base)) return CUDA_ERROR_INVALID_VALUE;
    forget_mapped_host(base);
    mirror::give_back(base);
    return CUDA_SUCCESS;
}

CUresult set_access(CUdeviceptr base, const CUmemAccessDesc *desc, size_t count)
{
    HostPieces &s = state();
    std::lock_guard lock(s.mutex);
    auto it = s.mappings.find(base);
    if (it == s.mappings.end()) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        if (is_host(desc[i].location))
            it->second.host = desc[i].flags;
        else
            it->second.devices[desc[i].location.id] = desc[i].flags;
    }
    return CUDA_SUCCESS;
}

CUresult get_access(unsigned long long *flags, const CUmemLocation &l, CUdeviceptr address)
{
    HostPieces &s = state();
    std::lock_guard lock(s.mutex);
    auto it = from(s, address);
    if (!flags || it == s.mappings.end() || it->first > address) return CUDA_ERROR_INVALID_VALUE;
    const Mapping &m = it->second;
    if (is_host(l)) {
        *flags = m.host;
        return CUDA_SUCCESS;
    }
    if (l.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
    const auto device = m.devices.find(l.id);
    *flags = device == m.devices.end() ? CU_MEM_ACCESS_FLAGS_PROT_NONE : device->second;
    return CUDA_SUCCESS;
}

}  // namespace rgpu::interpose::host_pieces
