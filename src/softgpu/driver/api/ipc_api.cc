// SPDX-License-Identifier: Apache-2.0
// Memory and events shared by processes of one host: CUDA Driver API, cuIpc*.
//
// Memory that gets a handle moves into a file in memory, at the same address (Arena::share).
// Another process of the same user opens that file by the handle, and maps it among its own device
// addresses. The exporter goes on paying for it.
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstring>
#include <map>
#include <mutex>

#include "softgpu/driver/api/export.h"
#include "softgpu/driver/base/log.h"
#include "softgpu/driver/base/shared_event.h"
#include "softgpu/driver/graph/capture.h"
#include "softgpu/driver/state/context.h"
#include "softgpu/driver/state/current.h"
#include "softgpu/driver/state/driver.h"
#include "softgpu/driver/state/event.h"
#include "softgpu/driver/state/memory.h"

namespace rgpu::softgpu::driver {

namespace {

constexpr uint32_t kMemoryMagic = 0x4D43'5049, kEventMagic = 0x4543'5049;

// What both kinds of handle hold.
struct Handle {
    uint32_t magic = 0;
    uint32_t offset = 0;  // of the memory in the file
    SharedFileName file;
    uint64_t bytes = 0;
    CUuuid device = {};
};
static_assert(sizeof(Handle) <= CU_IPC_HANDLE_SIZE);

template <class CuHandle> void store(CuHandle *to, const Handle &h)
{
    memset(to, 0, sizeof *to);
    memcpy(to, &h, sizeof h);
}

template <class CuHandle> bool load(const CuHandle &from, uint32_t magic, Handle &h)
{
    memcpy(static_cast<void *>(&h), &from, sizeof h);
    return h.magic == magic;
}

struct Opened {
    uint64_t address = 0;
    unsigned references = 0;
};
struct Imports {
    std::mutex mutex;
    std::map<std::pair<Context *, std::string>, Opened> opened;  // by the handle's bytes
};
Imports &imports()
{
    static auto *s = new Imports;
    return *s;
}

CUresult get_memory_handle(CUipcMemHandle *handle, CUdeviceptr address)
{
    Context *c;
    if (CUresult rc = usable_context(c)) return rc;
    if (!handle) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult rc = may_call_unsafe()) return rc;
    auto range = driver().ranges.find(address);
    if (!range || range->memory != Memory::device || range->pool) return CUDA_ERROR_INVALID_VALUE;
    Device &device = *driver().devices[range->device];
    // What runs may write to it while it moves.
    if (CUresult rc = range->context->synchronize()) return rc;
    Handle h;
    h.magic = kMemoryMagic;
    uint64_t offset = 0;
    auto file = device.arena.share(range->base, range->bytes, offset);
    if (!file) {
        complain("cuIpcGetMemHandle: %s", file.error().text.c_str());
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    h.file = *file;
    h.offset = static_cast<uint32_t>(offset);
    h.bytes = range->bytes;
    h.device = device.uuid;
    store(handle, h);
    return CUDA_SUCCESS;
}

// Memory of `device`, which the context uses.
CUresult map_memory(Context &c, Device &device, const Handle &h, uint64_t &address)
{
    auto file = open_shared_file(h.file);
    struct stat st = {};
    if (!file || fstat(file->get(), &st)) {
        if (!file) complain("cuIpcOpenMemHandle: %s", file.error().text.c_str());
        return CUDA_ERROR_INVALID_VALUE;
    }
    const auto bytes = static_cast<uint64_t>(st.st_size);
    if (!bytes || bytes % Arena::kPage || h.offset > bytes || h.bytes > bytes - h.offset)
        return CUDA_ERROR_INVALID_VALUE;
    const uint64_t base = device.arena.reserve(bytes, Arena::kPage);
    if (!base) return CUDA_ERROR_OUT_OF_MEMORY;
    void *p = reinterpret_cast<void *>(base);
    if (mmap(p, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file->get(), 0) ==
        MAP_FAILED) {
        device.arena.unreserve(base, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    madvise(p, bytes, MADV_DONTFORK);
    Range r;
    r.base = base + h.offset;
    r.bytes = h.bytes;
    r.memory = Memory::imported;
    r.device = device.index;
    r.context = &c;
    r.mapped_base = base;
    r.mapped_bytes = bytes;
    driver().ranges.add(r);
    address = r.base;
    return CUDA_SUCCESS;
}

CUresult open_memory(CUdeviceptr *address, CUipcMemHandle handle, unsigned flags)
{
    Context *c;
    if (CUresult rc = usable_context(c)) return rc;
    Handle h;
    if (!address || flags & ~CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || !load(handle, kMemoryMagic, h))
        return CUDA_ERROR_INVALID_VALUE;
    if (CUresult rc = may_call_unsafe()) return rc;
    if (h.file.pid == getpid()) return CUDA_ERROR_INVALID_CONTEXT;
    Device *device = device_named(h.device);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    // Another device's memory is reached as a peer's, where the caller says so.
    if (device != &c->device && !(flags & CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS))
        return CUDA_ERROR_INVALID_CONTEXT;
    Imports &s = imports();
    std::lock_guard lock(s.mutex);
    Opened &o = s.opened[{c, std::string(handle.reserved, sizeof handle.reserved)}];
    auto still = o.references ? driver().ranges.find(o.address) : std::nullopt;
    if (!still || still->memory != Memory::imported) {
        o = {};
        if (CUresult rc = map_memory(*c, *device, h, o.address)) return rc;
    }
    o.references++;
    *address = o.address;
    return CUDA_SUCCESS;
}

CUresult close_memory(CUdeviceptr address)
{
    Context *c;
    if (CUresult rc = usable_context(c)) return rc;
    if (CUresult rc = may_call_unsafe()) return rc;
    Imports &s = imports();
    std::lock_guard lock(s.mutex);
    for (auto it = s.opened.begin(); it != s.opened.end(); ++it) {
        if (it->second.address != address || !it->second.references) continue;
        if (--it->second.references) return CUDA_SUCCESS;
        s.opened.erase(it);
        if (CUresult rc = c->synchronize()) return rc;
        if (auto r = driver().ranges.remove(address)) release_range(*r);
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult get_event_handle(CUipcEventHandle *handle, CUevent event)
{
    auto e = driver().events.find(event);
    if (!e || !e->shared) return CUDA_ERROR_INVALID_HANDLE;
    if (!handle) return CUDA_ERROR_INVALID_VALUE;
    Handle h;
    h.magic = kEventMagic;
    h.file = e->shared->name();
    h.device = e->context.device.uuid;
    store(handle, h);
    return CUDA_SUCCESS;
}

CUresult open_event(CUevent *event, CUipcEventHandle handle)
{
    Context *c;
    if (CUresult rc = usable_context(c)) return rc;
    Handle h;
    if (!event || !load(handle, kEventMagic, h)) return CUDA_ERROR_INVALID_VALUE;
    auto shared = SharedEvent::open(h.file);
    if (!shared) {
        complain("cuIpcOpenEventHandle: %s", shared.error().text.c_str());
        return CUDA_ERROR_INVALID_HANDLE;
    }
    auto made = std::make_shared<Event>(*c, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
    made->shared = std::move(*shared);
    *event = driver().events.add(made);
    return CUDA_SUCCESS;
}

RGPU_EXPORT(cuIpcGetMemHandle, get_memory_handle)
RGPU_EXPORT(cuIpcOpenMemHandle_v2, open_memory)
RGPU_EXPORT(cuIpcCloseMemHandle, close_memory)
RGPU_EXPORT(cuIpcGetEventHandle, get_event_handle)
RGPU_EXPORT(cuIpcOpenEventHandle, open_event)

}  // namespace

}  // namespace rgpu::softgpu::driver
