// SPDX-License-Identifier: Apache-2.0
// Memory and addresses of the band.
#include "worker/bands/bands.h"

#include <algorithm>
#include <bit>
#include <cinttypes>
#include <cstdio>

#include "wire/bands.h"
#include "worker/connection/mailbox.h"

namespace rgpu::worker {

#define REAL(name) (real.call<CallId::name>())

namespace {

constexpr auto kDescriptor = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

CUmemAllocationProp properties(CUdevice device)
{
    CUmemAllocationProp p{};
    p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.requestedHandleTypes = kDescriptor;
    p.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    return p;
}

bool says_yes(const Driver &real, CUdevice device, CUdevice_attribute which)
{
    int value = 0;
    return !REAL(cuDeviceGetAttribute)(&value, which, device) && value;
}

// Virtual memory in pages of ours, which other processes can be given.
bool can_fill(const Driver &real, CUdevice device)
{
    const CUmemAllocationProp p = properties(device);
    size_t granule = 0;
    return REAL(cuMemAddressReserve) && REAL(cuMemSetAccess) &&
           REAL(cuMemGetAllocationGranularity) &&
           says_yes(real, device, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) &&
           says_yes(real, device,
                    CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) &&
           !REAL(cuMemGetAllocationGranularity)(&granule, &p, CU_MEM_ALLOC_GRANULARITY_MINIMUM) &&
           granule && Band::kPage % granule == 0;
}

// Copies may go from any memory of a program to any other: all of its GPUs reach all of the band,
// or there is none.
bool all_can(const Driver &real)
{
    int count = 0;
    if (REAL(cuDeviceGetCount)(&count)) return false;
    for (CUdevice d = 0; d < count; d++) {
        if (!can_fill(real, d)) return false;
        for (CUdevice other = 0; other < count; other++) {
            int can = 1;
            if (other != d && (REAL(cuDeviceCanAccessPeer)(&can, d, other) || !can)) return false;
        }
    }
    return true;
}

// To reserve an address is to ask for it: a driver may give another one.
bool reserve_band(const Driver &real, uint32_t index)
{
    CUdeviceptr got = 0;
    const uint64_t wanted = wire::band_begin(index);
    if (REAL(cuMemAddressReserve)(&got, wire::kBandBytes, 0, wanted, 0)) return false;
    if (got != wanted) REAL(cuMemAddressFree)(got, wire::kBandBytes);
    return got == wanted;
}

CUmemAccessDesc access_of(CUdevice device)
{
    return {{CU_MEM_LOCATION_TYPE_DEVICE, device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
}

}  // namespace

bool gives_bands(const Driver &real, CUdevice device)
{
    if (!can_fill(real, device) || !reserve_band(real, 0)) return false;
    REAL(cuMemAddressFree)(wire::band_begin(0), wire::kBandBytes);
    return true;
}

bool Bands::choose(uint32_t index)
{
    std::lock_guard lock(mutex_);
    if (index >= wire::kBands || tried_) return false;
    index_ = index;
    return true;
}

bool Bands::begin()
{
    if (tried_) return band_ != nullptr;
    tried_ = true;
    if (!Mailbox::here().is_open() || !all_can(real)) return false;
    if (reserve_band(real, index_))
        band_.reset(new Band(wire::band_begin(index_), wire::kBandBytes, *this));
    else
        fprintf(stderr,
                "rgpu-worker: lease %.8s: the driver does not give the addresses from %#" PRIx64
                " on: it places this program's memory itself\n",
                name_.c_str(), wire::band_begin(index_));
    return band_ != nullptr;
}

// --- pages

CUresult Bands::give_access(uint64_t address, uint64_t bytes) const
{
    std::vector<CUmemAccessDesc> all;
    for (const auto &[device, context] : contexts_)
        if (all.empty() || all.back().location.id != device) all.push_back(access_of(device));
    return all.empty() ? CUDA_SUCCESS
                       : REAL(cuMemSetAccess)(address, bytes, all.data(), all.size());
}

CUresult Bands::put(uint64_t address, uint64_t bytes, int device)
{
    Mapping m{0, bytes};
    if (CUresult r = make(device, bytes, m.handle)) return r;
    const CUresult r = map_at(address, m);
    if (r) REAL(cuMemRelease)(m.handle);
    return r;
}

void Bands::take(uint64_t address, uint64_t, int) { REAL(cuMemRelease)(unmap_at(address).handle); }

CUresult Bands::make(CUdevice device, uint64_t bytes, CUmemGenericAllocationHandle &handle) const
{
    const CUmemAllocationProp p = properties(device);
    return REAL(cuMemCreate)(&handle, bytes, &p, 0);
}

CUresult Bands::map_at(uint64_t address, const Mapping &m)
{
    CUresult r = REAL(cuMemMap)(address, m.bytes, 0, m.handle, 0);
    if (r) return r;
    if ((r = give_access(address, m.bytes)))
        REAL(cuMemUnmap)(address, m.bytes);
    else
        mappings_[address] = m;
    return r;
}

Bands::Mapping Bands::unmap_at(uint64_t address)
{
    const auto at = mappings_.find(address);
    const Mapping m = at->second;
    REAL(cuMemUnmap)(address, m.bytes);
    mappings_.erase(at);
    return m;
}

// --- contexts

uint32_t Bands::number_of(CUcontext context)
{
    auto at = std::find(owners_.begin(), owners_.end(), context);
    if (at == owners_.end()) at = std::find(owners_.begin(), owners_.end(), nullptr);
    if (at == owners_.end()) at = owners_.insert(at, nullptr);
    *at = context;
    return static_cast<uint32_t>(at - owners_.begin());
}

void Bands::made(CUcontext context, CUdevice device)
{
    std::lock_guard lock(mutex_);
    const auto first = contexts_.lower_bound({device, nullptr});
    const bool is_new = first == contexts_.end() || first->first != device;
    contexts_.emplace(device, context);
    if (!is_new) return;
    const CUmemAccessDesc access = access_of(device);
    CUresult r = CUDA_SUCCESS;
    for (const auto &[address, m] : mappings_)
        if (!r) r = REAL(cuMemSetAccess)(address, m.bytes, &access, 1);
    for (const auto &[name, i] : imports_)
        if (!r) r = REAL(cuMemSetAccess)(i.page, i.bytes, &access, 1);
    if (r)
        fprintf(stderr, "rgpu-worker: lease %.8s: GPU %d does not reach all memory: error %d\n",
                name_.c_str(), device, r);
}

void Bands::ended(CUcontext context)
{
    std::lock_guard lock(mutex_);
    std::erase_if(contexts_, [&](const auto &known) { return known.second == context; });
    const auto owner = std::find(owners_.begin(), owners_.end(), context);
    const auto number = static_cast<uint32_t>(owner - owners_.begin());
    std::erase_if(leaving_, [&](const Leaving &l) {
        if (l.context != context && l.block.owner != number) return false;
        if (l.context != context) REAL(cuEventDestroy_v2)(l.event);
        release(l.block);
        return true;
    });
    std::erase_if(imports_, [&](const auto &entry) {
        if (entry.first.first != context) return false;
        end_import(entry.second);
        return true;
    });
    if (owner == owners_.end()) return;
    for (const Band::Block &block : band_->forget_all(number)) release(block);
    if (placed_)
        for (const Band::Block &block : placed_->forget_all(number)) release(block);
    *owner = nullptr;
}

void Bands::capture_begins(CUstream stream)
{
    std::lock_guard lock(mutex_);
    captures_.insert(stream);
}

void Bands::capture_ends(CUstream stream)
{
    std::lock_guard lock(mutex_);
    captures_.erase(stream);
}

// --- allocations

CUresult Bands::allocate(CUdeviceptr *out, size_t bytes)
{
    CUcontext context = nullptr;
    CUdevice device = -1;
    if (out && bytes && !REAL(cuCtxGetCurrent)(&context) && context &&
        // Of a context that is broken, or gone, the driver knows what to say.
        !REAL(cuCtxGetStreamPriorityRange)(nullptr, nullptr) && !REAL(cuCtxGetDevice)(&device)) {
        std::lock_guard lock(mutex_);
        if (begin()) {
            poll_leaving();
            uint64_t address = 0;
            const CUresult r = band_->allocate(device, number_of(context), bytes, address);
            if (!r) *out = address;
            if (!r || r == CUDA_ERROR_OUT_OF_MEMORY) return r;
        }
    }
    return REAL(cuMemAlloc_v2)(out, bytes);
}

CUresult Bands::allocate_pitch(CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
                               unsigned element)
{
    size_t bytes = 0;
    if (const size_t row = wire::row_bytes(width, height, element); out && pitch && row) {
        bool is_ours;
        {
            std::lock_guard lock(mutex_);
            is_ours = begin();
        }
        if (is_ours && __builtin_mul_overflow(row, height, &bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
        if (is_ours) {
            CUresult r = allocate(out, bytes);
            if (!r) *pitch = row;
            return r;
        }
    }
    return REAL(cuMemAllocPitch_v2)(out, pitch, width, height, element);
}

// Waits for a context's work, as the driver does before it frees memory.
CUresult Bands::settle(CUcontext context)
{
    bool captures;
    {
        std::lock_guard lock(mutex_);
        captures = !captures_.empty();
    }
    CUcontext current = nullptr;
    REAL(cuCtxGetCurrent)(&current);
    if (current != context)
        if (CUresult r = REAL(cuCtxPushCurrent_v2)(context)) return r;
    // To synchronise would end a capture; to free something of the driver's own does not.
    CUdeviceptr piece = 0;
    const CUresult r = captures && !REAL(cuMemAlloc_v2)(&piece, Band::kUnit)
                           ? REAL(cuMemFree_v2)(piece)
                           : REAL(cuCtxSynchronize)();
    if (current != context) REAL(cuCtxPopCurrent_v2)(&context);
    return r;
}

std::optional<Band::Block> Bands::block_at(uint64_t address) const
{
    if (is_placed(address)) return placed_->find(address);
    return band_ ? band_->find(address) : std::nullopt;
}

std::optional<Band::Block> Bands::forget(uint64_t base)
{
    if (is_placed(base)) return placed_->forget(base);
    return band_ ? band_->forget(base) : std::nullopt;
}

void Bands::remember(const Band::Block &block)
{
    is_placed(block.base) ? placed_->remember(block) : band_->remember(block);
}

void Bands::release(const Band::Block &block)
{
    if (const auto name = exported_.find(block.base); name != exported_.end()) {
        withdraw(block, name->second);
        exported_.erase(name);
    }
    is_placed(block.base) ? release_placed(block) : band_->release(block);
}

CUresult Bands::free(CUdeviceptr address)
{
    CUcontext current = nullptr, owner = nullptr;
    std::optional<Band::Block> block;
    REAL(cuCtxGetCurrent)(&current);
    {
        std::lock_guard lock(mutex_);
        poll_leaving();
        if (is_pooled(address)) return CUDA_ERROR_INVALID_VALUE;
        // What a client gave out itself it has freed, whatever is current.
        if ((current || is_placed(address)) && (block = forget(address)))
            owner = context_of(block->owner);
    }
    if (!block) return REAL(cuMemFree_v2)(address);
    const CUresult r = settle(owner);
    std::lock_guard lock(mutex_);
    r && !is_placed(address) ? remember(*block) : release(*block);
    return r;
}

void Bands::poll_leaving()
{
    std::erase_if(leaving_, [&](const Leaving &l) {
        if (REAL(cuEventQuery)(l.event) == CUDA_ERROR_NOT_READY) return false;
        REAL(cuEventDestroy_v2)(l.event);
        release(l.block);
        return true;
    });
}

CUresult Bands::free_in_stream(CUdeviceptr address, CUstream stream, CUstream null_stream,
                               FreeInStream *by_driver)
{
    const CUstream real_stream = stream ? stream : null_stream;
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    CUcontext current = nullptr;
    std::unique_lock lock(mutex_);
    poll_leaving();
    const auto known = block_at(address);
    if (known && known->owner == kNobody) return CUDA_ERROR_INVALID_VALUE;
    if (!known || known->base != address || REAL(cuCtxGetCurrent)(&current) || !current ||
        REAL(cuStreamIsCapturing)(real_stream, &capture) || capture) {
        lock.unlock();
        return by_driver(address, stream);
    }
    Leaving l{nullptr, current, *forget(address)};
    if (REAL(cuEventCreate)(&l.event, CU_EVENT_DISABLE_TIMING)) l.event = nullptr;
    CUresult r = CUDA_SUCCESS;
    if (l.event && !(r = REAL(cuEventRecord)(l.event, real_stream))) {
        leaving_.push_back(l);
        return CUDA_SUCCESS;
    }
    if (l.event) REAL(cuEventDestroy_v2)(l.event);
    remember(l.block);
    return r ? r : CUDA_ERROR_OUT_OF_MEMORY;
}

namespace {

// Whether an entry of the map from beginnings to sizes begins in the range or reaches into it.
bool meets(const std::map<uint64_t, uint64_t> &all, uint64_t begin, uint64_t bytes)
{
    auto next = all.lower_bound(begin);
    if (next != all.end() && next->first - begin < bytes) return true;
    return next != all.begin() && (--next, begin - next->first < next->second);
}

// Whether one entry of it holds the whole range.
bool holds(const std::map<uint64_t, uint64_t> &all, uint64_t begin, uint64_t bytes)
{
    auto next = all.upper_bound(begin);
    if (next == all.begin()) return false;
    --next;
    const uint64_t before = begin - next->first;
    return before < next->second && bytes <= next->second - before;
}

}  // namespace

std::optional<Bands::Memory> Bands::find(CUdeviceptr address)
{
    std::lock_guard lock(mutex_);
    if (!band_ || !band_->contains(address)) return {};
    if (const auto b = block_at(address))
        return Memory{b->base, b->bytes, context_of(b->owner), false, b->owner == kNobody};
    for (const auto &[name, i] : imports_)
        if (address - i.address < i.size) return Memory{i.address, i.size, name.first, true, false};
    return meets(reserved_, address, 1) ? std::nullopt : std::optional(Memory{});
}

// --- addresses that the program fills itself

CUresult Bands::reserve(CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr hint,
                        unsigned long long flags)
{
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    if (bytes && bytes % Band::kPage == 0 && !flags &&
        (!alignment || std::has_single_bit(alignment))) {
        std::lock_guard lock(mutex_);
        uint64_t address = 0;
        if (begin() && hint && band_->contains(hint) &&
            hint % std::max<size_t>(alignment, 1) == 0 && band_->reserve_at(hint, bytes))
            address = hint;
        if (band_ && !address && (!hint || band_->contains(hint)))
            address = band_->reserve(bytes, alignment);
        if (address) {
            reserved_[address] = bytes;
            *out = address;
            return CUDA_SUCCESS;
        }
    }
    return REAL(cuMemAddressReserve)(out, bytes, alignment, hint, flags);
}

CUresult Bands::unreserve(CUdeviceptr address, size_t bytes)
{
    {
        std::lock_guard lock(mutex_);
        if (band_ && band_->contains(address)) {
            const auto at = reserved_.find(address);
            if (at == reserved_.end() || at->second != bytes ||
                meets(program_maps_, address, bytes))
                return CUDA_ERROR_INVALID_VALUE;
            reserved_.erase(at);
            band_->unreserve(address, bytes);
            return CUDA_SUCCESS;
        }
    }
    return REAL(cuMemAddressFree)(address, bytes);
}

CUresult Bands::map(CUdeviceptr address, size_t bytes, size_t offset,
                    CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    std::lock_guard lock(mutex_);
    const bool is_ours = band_ && band_->contains(address);
    if (is_ours && !holds(reserved_, address, bytes)) return CUDA_ERROR_INVALID_VALUE;
    const CUresult r = REAL(cuMemMap)(address, bytes, offset, handle, flags);
    if (is_ours && !r) program_maps_[address] = bytes;
    return r;
}

CUresult Bands::unmap(CUdeviceptr address, size_t bytes)
{
    std::lock_guard lock(mutex_);
    const bool is_ours = band_ && band_->contains(address);
    if (is_ours && !holds(reserved_, address, bytes)) return CUDA_ERROR_INVALID_VALUE;
    const CUresult r = REAL(cuMemUnmap)(address, bytes);
    if (is_ours && !r)
        program_maps_.erase(program_maps_.lower_bound(address),
                            program_maps_.lower_bound(address + bytes));
    return r;
}

}  // namespace rgpu::worker
