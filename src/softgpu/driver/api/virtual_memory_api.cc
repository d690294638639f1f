// SPDX-License-Identifier: Apache-2.0
// Memory and addresses apart: CUDA Driver API, "Virtual Memory Management".
//
// Physical memory is a file in memory, so that it can be mapped at several addresses. What has no
// access is not known to Ranges: calls refuse it, and kernels fault.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <mutex>

#include "softgpu/driver/api/export.h"
#include "softgpu/driver/api/virtual_memory.h"
#include "softgpu/driver/base/shared_file.h"
#include "softgpu/driver/state/driver.h"
#include "util/fd.h"

namespace rgpu::softgpu::driver {

namespace {

constexpr uint64_t kPage = Arena::kPage;
constexpr int kHost = -1;

struct Physical {
    Physical(Device *d, Fd f, uint64_t b, const CUmemAllocationProp &p, bool paid)
        : device(d), fd(std::move(f)), bytes(b), properties(p), is_paid(paid)
    {}
    ~Physical()
    {
        if (device && is_paid) device->give(bytes);
    }
    Device *const device;  // null: memory of the host
    const Fd fd;
    const uint64_t bytes;
    const CUmemAllocationProp properties;
    const bool is_paid;  // by this process; imported memory is by the one that made it
};
struct Held {
    std::shared_ptr<Physical> memory;
    unsigned references = 0;  // the program's; memory that is mapped stays without
};
struct Mapping {
    uint64_t bytes = 0;
    std::shared_ptr<Physical> memory;
    std::map<int, CUmemAccess_flags> access;  // by device; kHost: the program's
};

struct PhysicalMemory {
    std::mutex mutex;
    std::map<CUmemGenericAllocationHandle, Held> held;
    std::map<uint64_t, uint64_t> reserved;  // address -> bytes
    std::map<uint64_t, Mapping> mappings;   // by address
};

PhysicalMemory &physical_memory()
{
    static auto *s = new PhysicalMemory;
    return *s;
}

// Reserved addresses belong to no device: the first one's arena has them.
Arena &addresses() { return driver().devices[0]->arena; }

void *pointer(uint64_t address) { return reinterpret_cast<void *>(address); }
CUmemGenericAllocationHandle handle_of(const Physical &p) { return reinterpret_cast<uint64_t>(&p); }
bool whole_pages(uint64_t n) { return n && n % kPage == 0; }

// Where the memory is to be.
CUresult check_place(const CUmemAllocationProp *p)
{
    if (!p || p->type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
    // A host with a software GPU is taken for one without NUMA, whose node is 0.
    if (p->location.type == CU_MEM_LOCATION_TYPE_HOST) return CUDA_SUCCESS;
    if (p->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA)
        return p->location.id == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (p->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
    return find_device(p->location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

bool is_exportable(const CUmemAllocationProp &p)
{
    return p.requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR &&
           p.location.type == CU_MEM_LOCATION_TYPE_DEVICE;
}

CUresult check(const CUmemAllocationProp *p)
{
    if (CUresult rc = check_place(p)) return rc;
    if (!p->requestedHandleTypes || is_exportable(*p)) return CUDA_SUCCESS;
    return p->location.type == CU_MEM_LOCATION_TYPE_HOST ? CUDA_ERROR_INVALID_VALUE
                                                         : CUDA_ERROR_NOT_SUPPORTED;
}

// The same for memory that other processes may be given: to ask is not to make it.
CUresult granularity(size_t *bytes, const CUmemAllocationProp *p, CUmemAllocationGranularity_flags)
{
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult rc = check_place(p)) return rc;
    *bytes = kPage;
    return CUDA_SUCCESS;
}

// --- memory

// Each piece is a file. The last descriptors of the process are for others.
bool has_descriptors(const Fd &last)
{
    constexpr rlim_t kOthers = 64;
    rlimit most{};
    return !getrlimit(RLIMIT_NOFILE, &most) &&
           static_cast<rlim_t>(last.get()) + kOthers < most.rlim_cur;
}

CUresult create(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *p,
                unsigned long long flags)
{
    if (!handle || flags || !whole_pages(bytes)) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult rc = check(p)) return rc;
    const bool on_device = p->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    Device *device = on_device ? find_device(p->location.id) : nullptr;
    if (device && !device->take(bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    auto file = is_exportable(*p) ? make_exported_file(GivenAway::memory, device->uuid, bytes)
                                  : make_shared_file(bytes);
    if (!file || !has_descriptors(*file)) {
        if (device) device->give(bytes);
        return file ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_ERROR_OUT_OF_MEMORY;
    }
    auto memory = std::make_shared<Physical>(device, std::move(*file), bytes, *p, true);
    std::lock_guard lock(physical_memory().mutex);
    *handle = handle_of(*memory);
    physical_memory().held[*handle] = {memory, 1};
    return CUDA_SUCCESS;
}

CUresult release(CUmemGenericAllocationHandle handle)
{
    std::lock_guard lock(physical_memory().mutex);
    auto it = physical_memory().held.find(handle);
    if (it == physical_memory().held.end()) return CUDA_ERROR_INVALID_VALUE;
    if (!--it->second.references) physical_memory().held.erase(it);
    return CUDA_SUCCESS;
}

CUresult properties(CUmemAllocationProp *p, CUmemGenericAllocationHandle handle)
{
    std::lock_guard lock(physical_memory().mutex);
    auto it = physical_memory().held.find(handle);
    if (!p || it == physical_memory().held.end()) return CUDA_ERROR_INVALID_VALUE;
    *p = it->second.memory->properties;
    return CUDA_SUCCESS;
}

// --- descriptors of memory

CUresult export_memory(void *out, CUmemGenericAllocationHandle handle,
                       CUmemAllocationHandleType type, unsigned long long flags)
{
    if (!out || flags) return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard lock(physical_memory().mutex);
    auto it = physical_memory().held.find(handle);
    if (it == physical_memory().held.end()) return CUDA_ERROR_INVALID_VALUE;
    const Physical &memory = *it->second.memory;
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
        memory.properties.requestedHandleTypes != type)
        return CUDA_ERROR_INVALID_VALUE;
    const int fd = fcntl(memory.fd.get(), F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
    memcpy(out, &fd, sizeof fd);
    return CUDA_SUCCESS;
}

CUresult import_memory(CUmemGenericAllocationHandle *handle, void *from,
                       CUmemAllocationHandleType type)
{
    if (!handle || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_INVALID_VALUE;
    const int given = static_cast<int>(reinterpret_cast<intptr_t>(from));
    const auto file = exported_file(GivenAway::memory, given);
    if (!file || !whole_pages(file->bytes)) return CUDA_ERROR_INVALID_VALUE;
    Device *device = device_named(file->device);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    Fd fd(fcntl(given, F_DUPFD_CLOEXEC, 0));
    if (!fd) return CUDA_ERROR_OPERATING_SYSTEM;
    CUmemAllocationProp p = {};
    p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.requestedHandleTypes = type;
    p.location = {CU_MEM_LOCATION_TYPE_DEVICE, device->index};
    auto memory = std::make_shared<Physical>(device, std::move(fd), file->bytes, p, false);
    std::lock_guard lock(physical_memory().mutex);
    *handle = handle_of(*memory);
    physical_memory().held[*handle] = {memory, 1};
    return CUDA_SUCCESS;
}

// --- addresses

// At `hint`, in this process's slot or outside of all.
bool reserve_at(uint64_t hint, uint64_t bytes)
{
    if (driver().addresses().contains(hint)) return addresses().reserve_at(hint, bytes);
    return !driver().settings.low_addresses && driver().outside.reserve(hint, bytes);
}

// At `hint` where that is free, as NVIDIA's driver does, too, though it promises nothing.
CUresult reserve(CUdeviceptr *address, size_t bytes, size_t alignment, CUdeviceptr hint,
                 unsigned long long flags)
{
    if (!address || flags || !whole_pages(bytes) || (alignment && !std::has_single_bit(alignment)))
        return CUDA_ERROR_INVALID_VALUE;
    alignment = std::max<uint64_t>(alignment, kPage);
    const bool there = hint && hint % alignment == 0 && reserve_at(hint, bytes);
    const uint64_t a = there ? hint : addresses().reserve(bytes, alignment);
    if (!a) return CUDA_ERROR_OUT_OF_MEMORY;
    std::lock_guard lock(physical_memory().mutex);
    physical_memory().reserved[a] = bytes;
    *address = a;
    return CUDA_SUCCESS;
}

// The mapping that holds the address, or the first one behind it.
auto mapping_from(uint64_t address)
{
    auto it = physical_memory().mappings.upper_bound(address);
    if (it != physical_memory().mappings.begin()) {
        auto before = std::prev(it);
        if (address - before->first < before->second.bytes) return before;
    }
    return it;
}

CUresult free_addresses(CUdeviceptr address, size_t bytes)
{
    std::lock_guard lock(physical_memory().mutex);
    auto it = physical_memory().reserved.find(address);
    if (it == physical_memory().reserved.end() || it->second != bytes)
        return CUDA_ERROR_INVALID_VALUE;
    auto mapped = mapping_from(address);
    if (mapped != physical_memory().mappings.end() && mapped->first < address + bytes)
        return CUDA_ERROR_INVALID_VALUE;
    physical_memory().reserved.erase(it);
    if (!driver().outside.unreserve(address, bytes)) addresses().unreserve(address, bytes);
    return CUDA_SUCCESS;
}

CUresult map(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
             unsigned long long flags)
{
    if (flags || !whole_pages(bytes) || address % kPage || offset % kPage)
        return CUDA_ERROR_INVALID_VALUE;
    PhysicalMemory &s = physical_memory();
    std::lock_guard lock(s.mutex);
    auto held = s.held.find(handle);
    if (held == s.held.end()) return CUDA_ERROR_INVALID_VALUE;
    const auto &memory = held->second.memory;
    auto r = s.reserved.upper_bound(address);
    if (r == s.reserved.begin() || offset > memory->bytes || bytes > memory->bytes - offset)
        return CUDA_ERROR_INVALID_VALUE;
    --r;
    if (address - r->first > r->second || bytes > r->second - (address - r->first))
        return CUDA_ERROR_INVALID_VALUE;
    auto there = mapping_from(address);
    if (there != s.mappings.end() && there->first < address + bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (mmap(pointer(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, memory->fd.get(),
             static_cast<off_t>(offset)) == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    madvise(pointer(address), bytes, MADV_DONTFORK);
    s.mappings[address] = {bytes, memory, {}};
    return CUDA_SUCCESS;
}

// Calls change(address, mapping) for the mappings that make up [address, address + bytes) without a
// gap.
template <class Change> CUresult change_mappings(uint64_t address, uint64_t bytes, Change change)
{
    PhysicalMemory &s = physical_memory();
    const auto first = s.mappings.find(address);
    uint64_t at = address;
    auto it = first;
    for (; it != s.mappings.end() && it->first == at && at < address + bytes; ++it)
        at += it->second.bytes;
    if (!bytes || at != address + bytes) return CUDA_ERROR_INVALID_VALUE;
    for (auto next = first; next != it;) {
        auto now = next++;
        change(now->first, now->second);
    }
    return CUDA_SUCCESS;
}

CUresult unmap(CUdeviceptr address, size_t bytes)
{
    std::lock_guard lock(physical_memory().mutex);
    return change_mappings(address, bytes, [](uint64_t a, Mapping &m) {
        driver().ranges.remove(a);
        // As in Arena::unmap().
        (void)mmap(pointer(a), m.bytes, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        physical_memory().mappings.erase(a);
    });
}

// --- access. Devices share the host's page tables: what one may read, all may, and the same for
// writing.

// Whose access is meant: a device's, or the program's to memory of the host.
CUresult who(const CUmemLocation &l, int &out)
{
    switch (l.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        out = l.id;
        return find_device(l.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT: out = kHost; return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult set_access(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *desc, size_t count)
{
    if (!desc || !count) return CUDA_ERROR_INVALID_VALUE;
    bool for_host = false;
    for (size_t i = 0; i < count; i++) {
        int location;
        if (CUresult rc = who(desc[i].location, location)) return rc;
        for_host |= location == kHost;
        if (desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
            desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
            desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            return CUDA_ERROR_INVALID_VALUE;
    }
    std::lock_guard lock(physical_memory().mutex);
    // The program has no access to memory of a device.
    if (for_host)
        for (auto it = mapping_from(address);
             it != physical_memory().mappings.end() && it->first < address + bytes; ++it)
            if (it->second.memory->device) return CUDA_ERROR_INVALID_VALUE;
    return change_mappings(address, bytes, [&](uint64_t a, Mapping &m) {
        for (size_t i = 0; i < count; i++) {
            int location = kHost;
            who(desc[i].location, location);
            m.access[location] = desc[i].flags;
        }
        const bool any =
            std::any_of(m.access.begin(), m.access.end(), [](const auto &x) { return x.second; });
        const bool write = std::any_of(m.access.begin(), m.access.end(), [](const auto &x) {
            return x.second == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        });
        driver().ranges.remove(a);
        mprotect(pointer(a), m.bytes, write ? PROT_READ | PROT_WRITE : any ? PROT_READ : PROT_NONE);
        if (!any) return;
        Range r;
        r.base = a;
        r.bytes = m.bytes;
        r.memory = Memory::mapped;
        r.writable = write;
        r.of_host = !m.memory->device;
        r.device = m.memory->device ? m.memory->device->index : 0;
        driver().ranges.add(r);
    });
}

CUresult get_access(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr address)
{
    int of;
    if (!flags || !location || who(*location, of)) return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard lock(physical_memory().mutex);
    auto it = mapping_from(address);
    if (it == physical_memory().mappings.end() || it->first > address)
        return CUDA_ERROR_INVALID_VALUE;
    auto access = it->second.access.find(of);
    *flags = access == it->second.access.end() ? CU_MEM_ACCESS_FLAGS_PROT_NONE : access->second;
    return CUDA_SUCCESS;
}

CUresult retain(CUmemGenericAllocationHandle *handle, void *p)
{
    const auto address = reinterpret_cast<uint64_t>(p);
    std::lock_guard lock(physical_memory().mutex);
    auto it = mapping_from(address);
    if (!handle || it == physical_memory().mappings.end() || it->first > address)
        return CUDA_ERROR_INVALID_VALUE;
    const auto &memory = it->second.memory;
    *handle = handle_of(*memory);
    Held &held = physical_memory().held[*handle];
    held.memory = memory;
    held.references++;
    return CUDA_SUCCESS;
}

RGPU_EXPORT(cuMemGetAllocationGranularity, granularity)
RGPU_EXPORT(cuMemCreate, create)
RGPU_EXPORT(cuMemRelease, release)
RGPU_EXPORT(cuMemGetAllocationPropertiesFromHandle, properties)
RGPU_EXPORT(cuMemRetainAllocationHandle, retain)
RGPU_EXPORT(cuMemExportToShareableHandle, export_memory)
RGPU_EXPORT(cuMemImportFromShareableHandle, import_memory)
RGPU_EXPORT(cuMemAddressReserve, reserve)
RGPU_EXPORT(cuMemAddressFree, free_addresses)
RGPU_EXPORT(cuMemMap, map)
RGPU_EXPORT(cuMemUnmap, unmap)
RGPU_EXPORT(cuMemSetAccess, set_access)
RGPU_EXPORT(cuMemGetAccess, get_access)

}  // namespace

unsigned long long mapped_handle_types(uint64_t address)
{
    std::lock_guard lock(physical_memory().mutex);
    const auto it = mapping_from(address);
    return it == physical_memory().mappings.end() || it->first > address
               ? 0
               : it->second.memory->properties.requestedHandleTypes;
}

}  // namespace rgpu::softgpu::driver
