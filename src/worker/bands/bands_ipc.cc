// Handles of memory for other processes (cuIpc*): the driver makes none of virtual memory, so they
// name its descriptor at the mailbox.
#include <algorithm>
#include <cstring>
#include <utility>

#include "util/sha256.h"
#include "worker/bands/bands.h"
#include "worker/connection/mailbox.h"
#include "worker/limits/memory_cap.h"

namespace rgpu::worker {

#define REAL(name) (real.call<CallId::name>())

// What such a handle holds (doc/protocol.md). It comes back from a client: whoever does not know
// the key has no memory, and sizes are checked.
struct IpcName {
    uint32_t magic = kMagic;
    uint32_t offset = 0;  // of the memory in what the descriptor stands for
    uint64_t mailbox = 0;
    wire::ShareKey key{};
    uint64_t bytes = 0;
    uint64_t lease = 0;  // short_name() of it

    static constexpr uint32_t kMagic = 0x42504752;  // "RGPB"
};
static_assert(sizeof(IpcName) <= CU_IPC_HANDLE_SIZE);

namespace {

uint64_t short_name(const std::string &lease)
{
    const Digest digest = sha256(lease);
    uint64_t beginning;
    memcpy(&beginning, digest.data(), sizeof beginning);
    return beginning;
}

}  // namespace

CUresult Bands::get_ipc_handle(CUipcMemHandle *out, CUdeviceptr address)
{
    std::unique_lock lock(mutex_);
    const auto block = out && band_ ? band_->find(address) : std::nullopt;
    if (!block) {
        const bool is_empty = band_ && band_->contains(address);
        lock.unlock();
        return is_empty ? CUDA_ERROR_INVALID_VALUE : REAL(cuIpcGetMemHandle)(out, address);
    }
    const uint64_t page = Band::page_of(block->base);
    if (!exported_.contains(block->base)) {
        const Mapping &m = mappings_.at(page);
        int fd = -1;
        if (CUresult r = REAL(cuMemExportToShareableHandle)(
                &fd, m.handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0))
            return r;
        Fd descriptor(fd);
        const auto key = new_share_key();
        if (!key || !Mailbox::here().offer(*key, std::move(descriptor), m.bytes))
            return CUDA_ERROR_OPERATING_SYSTEM;
        exported_[block->base] = *key;
    }
    IpcName name;
    name.offset = static_cast<uint32_t>(block->base - page);
    name.mailbox = Mailbox::here().number();
    name.key = exported_.at(block->base);
    name.bytes = block->bytes;
    name.lease = short_name(name_);
    *out = {};
    memcpy(out, &name, sizeof name);
    return CUDA_SUCCESS;
}

CUdeviceptr Bands::open_again(const ImportName &as)
{
    const auto there = imports_.find(as);
    if (there == imports_.end()) return 0;
    there->second.times++;
    return there->second.address;
}

CUresult Bands::import(const ImportName &as, const IpcName &name, bool as_peer, CUdeviceptr *out)
{
    auto received = ask_mailbox(name.mailbox, name.key);
    if (!received)
        return received.error().kind == ErrorKind::invalid ? CUDA_ERROR_INVALID_VALUE
                                                           : CUDA_ERROR_OPERATING_SYSTEM;
    std::lock_guard lock(mutex_);
    // Another thread may have opened it while this one asked.
    if (const CUdeviceptr address = open_again(as)) return *out = address, CUDA_SUCCESS;
    Import i;
    i.bytes = received->bytes;
    i.times = 1;
    if (!begin()) return CUDA_ERROR_NOT_SUPPORTED;
    if (!i.bytes || i.bytes % Band::kPage || name.offset > i.bytes ||
        name.bytes > i.bytes - name.offset || !name.bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (MemoryCap *cap = memory_cap()) cap->import_comes(i.bytes);
    void *descriptor = reinterpret_cast<void *>(static_cast<intptr_t>(received->fd.get()));
    if (CUresult r = REAL(cuMemImportFromShareableHandle)(&i.handle, descriptor,
                                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
        return r;
    CUmemAllocationProp made{};
    CUdevice here = -1;
    CUresult r = REAL(cuMemGetAllocationPropertiesFromHandle)(&made, i.handle);
    if (!r) r = REAL(cuCtxGetDevice)(&here);
    // Another device's memory is reached as a peer's, where the caller says so.
    if (!r && made.location.id != here && !as_peer) r = CUDA_ERROR_INVALID_CONTEXT;
    if (!r && !(i.page = band_->reserve(i.bytes, Band::kPage))) r = CUDA_ERROR_OUT_OF_MEMORY;
    if (!r && !(r = REAL(cuMemMap)(i.page, i.bytes, 0, i.handle, 0))) {
        r = give_access(i.page, i.bytes);
        if (r) REAL(cuMemUnmap)(i.page, i.bytes);
    }
    if (r) {
        if (i.page) band_->unreserve(i.page, i.bytes);
        REAL(cuMemRelease)(i.handle);
        return r;
    }
    i.address = i.page + name.offset;
    i.size = name.bytes;
    imports_[as] = i;
    *out = i.address;
    return CUDA_SUCCESS;
}

template <CallId Id>
CUresult Bands::open_ipc_handle(CUdeviceptr *out, CUipcMemHandle handle, unsigned flags)
{
    IpcName name;
    memcpy(static_cast<void *>(&name), &handle, sizeof name);
    if (name.magic != IpcName::kMagic) return real.call<Id>()(out, handle, flags);
    ImportName as{nullptr, name.key};
    if (!out || flags & ~CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) return CUDA_ERROR_INVALID_VALUE;
    if (REAL(cuCtxGetCurrent)(&as.first) || !as.first || name.mailbox == Mailbox::here().number())
        return CUDA_ERROR_INVALID_CONTEXT;
    if (name.lease != short_name(name_)) return CUDA_ERROR_INVALID_VALUE;
    {
        std::lock_guard lock(mutex_);
        if (const CUdeviceptr address = open_again(as)) return *out = address, CUDA_SUCCESS;
    }
    return import(as, name, flags & CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, out);
}
template CUresult Bands::open_ipc_handle<CallId::cuIpcOpenMemHandle>(CUdeviceptr *, CUipcMemHandle,
                                                                     unsigned);
template CUresult Bands::open_ipc_handle<CallId::cuIpcOpenMemHandle_v2>(CUdeviceptr *,
                                                                        CUipcMemHandle, unsigned);

void Bands::end_import(const Import &i)
{
    REAL(cuMemUnmap)(i.page, i.bytes);
    REAL(cuMemRelease)(i.handle);
    band_->unreserve(i.page, i.bytes);
}

CUresult Bands::close_ipc_handle(CUdeviceptr address)
{
    std::unique_lock lock(mutex_);
    const auto at = std::find_if(imports_.begin(), imports_.end(),
                                 [&](const auto &e) { return e.second.address == address; });
    if (at == imports_.end()) {
        lock.unlock();
        return REAL(cuIpcCloseMemHandle)(address);
    }
    if (at->second.times > 1) return at->second.times--, CUDA_SUCCESS;
    const auto [name, gone] = *at;
    imports_.erase(at);
    lock.unlock();
    const CUresult r = settle(name.first);
    lock.lock();
    end_import(gone);
    return r;
}

}  // namespace rgpu::worker
