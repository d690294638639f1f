// SPDX-License-Identifier: Apache-2.0
// Handles of memory for other processes (cuIpc*): the driver makes none of virtual memory, so they
// name its descriptor at the mailbox.
#include <algorithm>
#include <cstring>
#include <utility>

#include "util/sha256.h"
#include "wire/bands.h"
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

    uint64_t end() const { return offset + bytes; }
};
static_assert(sizeof(IpcName) <= CU_IPC_HANDLE_SIZE);

namespace {

constexpr auto kDescriptor = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

uint64_t short_name(const std::string &lease)
{
    const Digest digest = sha256(lease);
    uint64_t beginning;
    memcpy(&beginning, digest.data(), sizeof beginning);
    return beginning;
}

// Memory at an address of the client's choice lies in pages that have a descriptor each. Who knows
// the key of the first one knows all of them.
wire::ShareKey key_of_page(wire::ShareKey key, uint64_t page)
{
    uint64_t word = 0;
    memcpy(&word, key.data(), sizeof word);
    word ^= page;
    memcpy(key.data(), &word, sizeof word);
    return key;
}

uint64_t pages_up_to(uint64_t bytes) { return Band::rounded(bytes, Band::kPage) / Band::kPage; }

}  // namespace

CUresult Bands::offer_pages(const Band::Block &block, const wire::ShareKey &key) const
{
    const uint64_t first = Band::page_of(block.base);
    CUresult r = mappings_.contains(first) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    for (uint64_t i = 0; !r && i < pages_up_to(block.base - first + block.bytes); i++) {
        const auto at = mappings_.find(first + i * Band::kPage);
        if (at == mappings_.end()) break;  // all of it is one
        int fd = -1;
        r = REAL(cuMemExportToShareableHandle)(&fd, at->second.handle, kDescriptor, 0);
        if (!r && !Mailbox::here().offer(key_of_page(key, i), Fd(fd), at->second.bytes))
            r = CUDA_ERROR_OPERATING_SYSTEM;
    }
    if (r) withdraw(block, key);
    return r;
}

void Bands::withdraw(const Band::Block &block, const wire::ShareKey &key) const
{
    for (uint64_t i = 0; i < pages_up_to(block.base % Band::kPage + block.bytes); i++)
        Mailbox::here().withdraw(key_of_page(key, i));
}

CUresult Bands::get_ipc_handle(CUipcMemHandle *out, CUdeviceptr address)
{
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    std::unique_lock lock(mutex_);
    const auto block = block_at(address);
    if (block && block->owner == kNobody) return CUDA_ERROR_INVALID_VALUE;
    if (!block) {
        const bool is_empty = band_ && band_->contains(address);
        lock.unlock();
        return is_empty ? CUDA_ERROR_INVALID_VALUE : REAL(cuIpcGetMemHandle)(out, address);
    }
    const uint64_t page = Band::page_of(block->base);
    if (!exported_.contains(block->base)) {
        const auto key = new_share_key();
        if (!key) return CUDA_ERROR_OPERATING_SYSTEM;
        if (CUresult r = offer_pages(*block, *key)) return r;
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

// One of the pages that hold the memory, or the only one, whatever its size.
CUresult Bands::import_page(const Received &received, bool as_peer, Import &i) const
{
    if (MemoryCap *cap = memory_cap()) cap->import_comes(received.bytes);
    void *descriptor = reinterpret_cast<void *>(static_cast<intptr_t>(received.fd.get()));
    CUmemGenericAllocationHandle handle = 0;
    if (CUresult r = REAL(cuMemImportFromShareableHandle)(&handle, descriptor, kDescriptor))
        return r;
    i.handles.push_back(handle);
    CUmemAllocationProp made{};
    CUdevice here = -1;
    CUresult r = REAL(cuMemGetAllocationPropertiesFromHandle)(&made, handle);
    if (!r) r = REAL(cuCtxGetDevice)(&here);
    // Another device's memory is reached as a peer's, where the caller says so.
    return !r && made.location.id != here && !as_peer ? CUDA_ERROR_INVALID_CONTEXT : r;
}

// Maps its handles, one behind the other.
CUresult Bands::map_import(Import &i)
{
    if (!(i.page = band_->reserve(i.bytes, Band::kPage))) return CUDA_ERROR_OUT_OF_MEMORY;
    const uint64_t bytes = i.bytes / i.handles.size();
    CUresult r = CUDA_SUCCESS;
    for (size_t n = 0; !r && n < i.handles.size(); n++) {
        const uint64_t address = i.page + n * bytes;
        size_t mapped = n;
        r = REAL(cuMemMap)(address, bytes, 0, i.handles[n], 0);
        if (!r) mapped++, r = give_access(address, bytes);
        if (r && mapped) REAL(cuMemUnmap)(i.page, mapped * bytes);
    }
    return r;
}

CUresult Bands::import(const ImportName &as, const IpcName &name, bool as_peer, CUdeviceptr *out)
{
    Import i;
    i.times = 1;
    std::vector<Received> pages;
    for (uint64_t n = 0; n < pages_up_to(name.end()) && (n == 0 || pages[0].bytes == Band::kPage);
         n++) {
        auto received = ask_mailbox(name.mailbox, key_of_page(name.key, n));
        if (!received)
            return received.error().kind == ErrorKind::invalid ? CUDA_ERROR_INVALID_VALUE
                                                               : CUDA_ERROR_OPERATING_SYSTEM;
        i.bytes += received->bytes;
        if (!received->bytes || received->bytes % Band::kPage ||
            (n && received->bytes != Band::kPage))
            return CUDA_ERROR_INVALID_VALUE;
        pages.push_back(std::move(*received));
    }
    if (!name.bytes || name.end() > i.bytes) return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard lock(mutex_);
    // Another thread may have opened it while this one asked.
    if (const CUdeviceptr address = open_again(as)) return *out = address, CUDA_SUCCESS;
    if (!begin()) return CUDA_ERROR_NOT_SUPPORTED;
    CUresult r = CUDA_SUCCESS;
    for (size_t n = 0; !r && n < pages.size(); n++) r = import_page(pages[n], as_peer, i);
    if (!r) r = map_import(i);
    if (r) {
        if (i.page) band_->unreserve(i.page, i.bytes);
        for (const auto handle : i.handles) REAL(cuMemRelease)(handle);
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
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    IpcName name;
    memcpy(static_cast<void *>(&name), &handle, sizeof name);
    if (name.magic != IpcName::kMagic) return real.call<Id>()(out, handle, flags);
    ImportName as{nullptr, name.key};
    if (!out || flags & ~CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) return CUDA_ERROR_INVALID_VALUE;
    if (REAL(cuCtxGetCurrent)(&as.first) || !as.first || name.mailbox == Mailbox::here().number())
        return CUDA_ERROR_INVALID_CONTEXT;
    if (name.lease != short_name(name_) || name.bytes > wire::kBandBytes)
        return CUDA_ERROR_INVALID_VALUE;
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
    for (const auto handle : i.handles) REAL(cuMemRelease)(handle);
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
