// SPDX-License-Identifier: Apache-2.0
// Stretches, and the bytes that go to and from them.
#include "worker/copies/mirrored_memory.h"

#include <sys/mman.h>

#include <algorithm>

#include "wire/codec.h"
#include "wire/diff.h"
#include "worker/driver/device_memory.h"
#include "worker/driver/driver.h"

namespace rgpu::worker {

namespace {

constexpr size_t kBuffer = 4 << 20;
// Changed bytes that lie closer than this go to the device in one copy, where what lies between may
// be written.
constexpr size_t kGap = 4096;

// Our own work is none of a capture that the program has under way.
class Relaxed {
public:
    Relaxed()
    {
        if (auto exchange = DRIVER(cuThreadExchangeStreamCaptureMode)) exchange(&mode_);
    }
    ~Relaxed()
    {
        if (auto exchange = DRIVER(cuThreadExchangeStreamCaptureMode)) exchange(&mode_);
    }

private:
    CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

uint8_t *make_twin(uint64_t bytes)
{
    void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? nullptr : static_cast<uint8_t *>(p);
}

// Memory of the current device, mapped there, for every device that can reach it.
CUresult map_memory(uint64_t address, uint64_t bytes)
{
    CUmemAllocationProp p{};
    p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    if (CUresult r = DRIVER(cuCtxGetDevice)(&p.location.id)) return r;
    CUmemGenericAllocationHandle memory;
    if (CUresult r = DRIVER(cuMemCreate)(&memory, bytes, &p, 0)) return r;
    CUresult r = DRIVER(cuMemMap)(address, bytes, 0, memory, 0);
    DRIVER(cuMemRelease)(memory);  // mapped, it stays
    if (r) return r;
    CUmemAccessDesc access{p.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    r = DRIVER(cuMemSetAccess)(address, bytes, &access, 1);
    if (r) DRIVER(cuMemUnmap)(address, bytes);
    int devices = 0;
    DRIVER(cuDeviceGetCount)(&devices);
    for (int d = 0; d < devices && !r; d++) {
        if (d == p.location.id) continue;
        access.location.id = d;
        DRIVER(cuMemSetAccess)
        (address, bytes, &access, 1);  // refused without a way between the two
    }
    return r;
}

}  // namespace

CUresult MirroredMemory::reserve(uint64_t hint, uint64_t bytes, uint64_t &address)
{
    if (!DRIVER(cuMemAddressReserve) || !DRIVER(cuMemSetAccess)) return CUDA_ERROR_NOT_SUPPORTED;
    if (!bytes || bytes % wire::kMirrorGranule) return CUDA_ERROR_INVALID_VALUE;
    CUdeviceptr got = 0;
    Relaxed relaxed;
    if (CUresult r = DRIVER(cuMemAddressReserve)(&got, bytes, wire::kMirrorGranule, hint, 0))
        return r;
    address = got;
    std::lock_guard lock(mutex_);
    stretches_[got] = {bytes, nullptr, Given::by_us};
    return CUDA_SUCCESS;
}

CUresult MirroredMemory::back(uint64_t address)
{
    std::lock_guard lock(mutex_);
    auto it = stretches_.find(address);
    if (it == stretches_.end() || it->second.given != Given::by_us || it->second.twin)
        return CUDA_ERROR_INVALID_VALUE;
    return back(address, it->second);
}

CUresult MirroredMemory::back_mapped(uint64_t address, uint64_t bytes)
{
    if (!bytes || bytes % wire::kMirrorGranule) return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard lock(mutex_);
    const auto next = stretches_.lower_bound(address + bytes);
    if (next != stretches_.begin() &&
        std::prev(next)->first + std::prev(next)->second.bytes > address)
        return CUDA_ERROR_INVALID_VALUE;
    Stretch &s = stretches_[address] = {bytes, nullptr, Given::by_program};
    CUresult r = back(address, s);
    if (r) stretches_.erase(address);
    return r;
}

CUresult MirroredMemory::back(uint64_t address, Stretch &s)
{
    const uint64_t bytes = s.bytes;
    Relaxed relaxed;
    Path *w = nullptr;
    if (CUresult r = path(w)) return r;
    if (CUresult r = map_memory(address, bytes)) return r;
    uint8_t *twin = make_twin(bytes);
    CUresult r = twin ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    if (!r) r = DRIVER(cuMemsetD8Async)(address, 0, bytes, w->stream);
    if (!r) r = DRIVER(cuStreamSynchronize)(w->stream);
    if (!r) {
        s.twin = twin;
        return CUDA_SUCCESS;
    }
    if (twin) munmap(twin, bytes);
    DRIVER(cuMemUnmap)(address, bytes);
    return r;
}

CUresult MirroredMemory::adopt(uint64_t address, uint64_t bytes)
{
    std::lock_guard lock(mutex_);
    if (auto it = stretches_.find(address); it != stretches_.end()) {
        if (it->second.given != Given::by_driver || it->second.bytes == bytes) return CUDA_SUCCESS;
        munmap(it->second.twin, it->second.bytes);  // another variable lay there
        stretches_.erase(it);
    }
    uint8_t *twin = make_twin(bytes);
    if (!twin) return CUDA_ERROR_OUT_OF_MEMORY;
    stretches_[address] = {bytes, twin, Given::by_driver};
    return CUDA_SUCCESS;
}

CUresult MirroredMemory::release(uint64_t address)
{
    std::lock_guard lock(mutex_);
    auto it = stretches_.find(address);
    if (it == stretches_.end()) return CUDA_ERROR_INVALID_VALUE;
    const Stretch s = it->second;
    stretches_.erase(it);
    if (s.twin) munmap(s.twin, s.bytes);
    if (s.given == Given::by_driver) return CUDA_SUCCESS;
    Relaxed relaxed;
    CUresult r = s.twin ? DRIVER(cuMemUnmap)(address, s.bytes) : CUDA_SUCCESS;
    if (s.given == Given::by_program) return r;
    CUresult f = DRIVER(cuMemAddressFree)(address, s.bytes);
    return r ? r : f;
}

uint8_t *MirroredMemory::twin_of(wire::MirroredRange range)
{
    auto it = stretches_.upper_bound(range.address);
    if (it == stretches_.begin()) return nullptr;
    --it;
    const uint64_t offset = range.address - it->first;
    const bool inside = offset < it->second.bytes && range.bytes <= it->second.bytes - offset;
    if (!inside || !it->second.twin) return nullptr;
    // A variable goes with its module, and what the program may unmap perhaps went: unseen here.
    if (it->second.given != Given::by_us && !is_device_memory(range.address, range.bytes))
        return nullptr;
    return it->second.twin + offset;
}

CUresult MirroredMemory::path(Path *&w)
{
    CUcontext context = nullptr;
    if (CUresult r = DRIVER(cuCtxGetCurrent)(&context)) return r;
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    w = &paths_[context];
    if (w->ready[1]) return CUDA_SUCCESS;
    int least = 0, greatest = 0;
    // A priority of its own, so that it shares no hardware queue with a stream that stands still.
    DRIVER(cuCtxGetStreamPriorityRange)(&least, &greatest);
    CUresult r = w->stream ? CUDA_SUCCESS
                           : DRIVER(cuStreamCreateWithPriority)(&w->stream, CU_STREAM_NON_BLOCKING,
                                                                greatest);
    for (int i = 0; i < 2 && !r; i++) {
        if (!w->buffer[i] && !(w->buffer[i] = make_twin(kBuffer))) return CUDA_ERROR_OUT_OF_MEMORY;
        // Copies work without, too, only slower.
        DRIVER(cuMemHostRegister_v2)(w->buffer[i], kBuffer, CU_MEMHOSTREGISTER_PORTABLE);
        if (!w->ready[i]) r = DRIVER(cuEventCreate)(&w->ready[i], CU_EVENT_DISABLE_TIMING);
    }
    return r;
}

void MirroredMemory::forget(CUcontext context)
{
    std::lock_guard lock(mutex_);
    auto it = paths_.find(context);
    if (it == paths_.end()) return;
    for (int i = 0; i < 2; i++) {
        if (it->second.ready[i]) DRIVER(cuEventDestroy_v2)(it->second.ready[i]);
        if (!it->second.buffer[i]) continue;
        DRIVER(cuMemHostUnregister)(it->second.buffer[i]);
        munmap(it->second.buffer[i], kBuffer);
    }
    if (it->second.stream) DRIVER(cuStreamDestroy_v2)(it->second.stream);
    paths_.erase(it);
}

Result<CUresult> MirroredMemory::push(wire::MirroredRange range, bool exclusive,
                                      const uint8_t *diff, size_t diff_bytes)
{
    struct Run {
        size_t offset, bytes;
    };
    std::lock_guard lock(mutex_);
    uint8_t *twin = twin_of(range);
    if (!twin) return CUDA_ERROR_INVALID_VALUE;
    std::vector<Run> runs;
    const size_t gap = exclusive ? kGap : 0;
    const bool sound = wire::apply_diff(
        diff, diff_bytes, range.bytes, [&](size_t at, const uint8_t *data, size_t n) {
            memcpy(twin + at, data, n);
            if (!runs.empty() && at - (runs.back().offset + runs.back().bytes) <= gap)
                runs.back().bytes = at + n - runs.back().offset;
            else
                runs.push_back({at, n});
        });
    if (!sound) return error(ErrorKind::invalid, "a damaged diff");
    Relaxed relaxed;
    Path *w = nullptr;
    CUresult r = path(w);
    for (size_t i = 0; i < runs.size() && !r; i++)
        r = DRIVER(cuMemcpyHtoDAsync_v2)(range.address + runs[i].offset, twin + runs[i].offset,
                                         runs[i].bytes, w->stream);
    return r ? r : DRIVER(cuStreamSynchronize)(w->stream);
}

CUresult MirroredMemory::fetch(Path &w, int which, const Piece *pieces, size_t count)
{
    CUresult r = CUDA_SUCCESS;
    size_t at = 0;
    for (size_t i = 0; i < count && !r; at += pieces[i++].bytes)
        r = DRIVER(cuMemcpyDtoHAsync_v2)(w.buffer[which] + at, pieces[i].address, pieces[i].bytes,
                                         w.stream);
    return r ? r : DRIVER(cuEventRecord)(w.ready[which], w.stream);
}

void MirroredMemory::compare(const Piece &piece, const uint8_t *now, std::vector<uint8_t> &answer)
{
    struct Head {
        uint64_t address;
        uint32_t bytes, diff;
    };
    const size_t start = answer.size();
    answer.resize(start + sizeof(Head));
    wire::make_diff(now, piece.twin, piece.bytes, 0, SIZE_MAX, answer);
    const Head head{piece.address, static_cast<uint32_t>(piece.bytes),
                    static_cast<uint32_t>(answer.size() - start - sizeof(Head))};
    if (head.diff)
        memcpy(&answer[start], &head, sizeof head);
    else
        answer.resize(start);
}

CUresult MirroredMemory::pull(const std::vector<wire::MirroredRange> &ranges,
                              std::vector<uint8_t> &answer)
{
    std::lock_guard lock(mutex_);
    // Before there is a context, nothing works on the variables that the driver has placed: this
    // process may read them.
    CUcontext context = nullptr;
    if (CUresult r = DRIVER(cuCtxGetCurrent)(&context)) return r;
    std::vector<Piece> pieces;
    std::vector<size_t> batches = {0};  // where each begins: no more than fits a buffer
    size_t filled = 0;
    for (wire::MirroredRange range : ranges) {
        uint8_t *twin = twin_of(range);
        if (!twin) return CUDA_ERROR_INVALID_VALUE;
        if (!context) {
            if (std::prev(stretches_.upper_bound(range.address))->second.given != Given::by_driver)
                return CUDA_ERROR_INVALID_CONTEXT;
            compare({range.address, twin, range.bytes},
                    reinterpret_cast<const uint8_t *>(range.address), answer);
            continue;
        }
        while (range.bytes) {
            if (filled == kBuffer) {
                batches.push_back(pieces.size());
                filled = 0;
            }
            const size_t n = std::min<size_t>(range.bytes, kBuffer - filled);
            pieces.push_back({range.address, twin, n});
            range.address += n, range.bytes -= n, twin += n, filled += n;
        }
    }
    batches.push_back(pieces.size());

    if (pieces.empty()) return CUDA_SUCCESS;
    Relaxed relaxed;
    Path *w = nullptr;
    CUresult r = path(w);
    auto batch = [&](size_t i) {
        return std::pair(&pieces[0] + batches[i], batches[i + 1] - batches[i]);
    };
    const size_t count = batches.size() - 1;
    // The next batch is on its way while one is compared.
    for (size_t i = 0; i <= count && !r; i++) {
        if (i < count) r = fetch(*w, i % 2, batch(i).first, batch(i).second);
        if (i == 0 || r) continue;
        r = DRIVER(cuEventSynchronize)(w->ready[(i - 1) % 2]);
        const uint8_t *now = w->buffer[(i - 1) % 2];
        for (size_t k = batches[i - 1]; k < batches[i] && !r; now += pieces[k++].bytes)
            compare(pieces[k], now, answer);
    }
    if (r && w) DRIVER(cuStreamSynchronize)(w->stream);
    return r;
}

}  // namespace rgpu::worker
