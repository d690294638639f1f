// SPDX-License-Identifier: Apache-2.0
// Copies between the program's memory and the server's, and sets of device memory.
//
// A copy to the device goes out in chunks behind their frames; the program may reuse its memory as
// soon as the call returns. A copy to the host is one call, answered by data frames when the
// stream gets there.
#include "interpose/link/blocks.h"
#include "interpose/link/waiting.h"
#include "interpose/mirror/addresses.h"
#include "interpose/mirror/mirror.h"
#include "interpose/span/relay.h"
#include "interpose/state/capture.h"
#include "interpose/state/idle.h"
#include "interpose/stream/callback.h"
#include "interpose/stream/copies.h"
#include "interpose/stream/read_ahead.h"
#include "interpose/stream/sync_copies.h"
#include "interpose/stub/by_hand.h"
#include "interpose/stub/stub.h"
#include "wire/bodies.h"

namespace rgpu::interpose {

namespace {

using Target = wire::CopyTarget;

// A copy into a graph under capture: the carrier of boxes puts server memory in the program's
// place.
CUresult capture_copy(CUdeviceptr device, const void *from_host, void *to_host, size_t bytes,
                      CUstream stream)
{
    CUDA_MEMCPY3D c{};
    c.srcMemoryType = from_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    c.dstMemoryType = to_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    c.srcHost = from_host, c.dstHost = to_host;
    c.srcDevice = c.dstDevice = device;
    c.srcPitch = c.dstPitch = c.WidthInBytes = bytes;
    c.srcHeight = c.dstHeight = c.Height = c.Depth = 1;
    return remote<CallId::cuMemcpy3DAsync_v2>(static_cast<const CUDA_MEMCPY3D *>(&c), stream);
}

// What every set checks before it looks at the address.
// Whether rows of so many elements, `pitch` bytes apart, are aligned and lie in memory that can be
// written; none need not.
bool may_be_set(CUdeviceptr to, size_t pitch, size_t width, size_t height, size_t element)
{
    if (!width || !height) return true;
    size_t row = 0, bytes = 0;
    return to % element == 0 && !__builtin_mul_overflow(width, element, &row) &&
           !__builtin_mul_overflow(height - 1, pitch, &bytes) &&
           !__builtin_add_overflow(bytes, row, &bytes) && is_device_range(to, bytes, Access::write);
}

CUresult may_set(CUstream stream)
{
    HandleId id = 0;
    if (!session()) return not_ready();
    if (CUresult r = detail::id_in(stream, id)) return r;
    return context_state();
}

// What every copy checks; resolves the stream.
CUresult prepare(CUstream stream, Target &t)
{
    if (!session()) return not_ready();
    if (CUresult r = detail::id_in(stream, t.stream)) return r;
    if (CUresult r = context_state()) return r;
    return may_give_work(t.stream);
}

uint64_t stream_key(const Target &t)
{
    return t.stream < calls::kFirstHandle ? uint64_t{current_context()} << 32 | t.stream : t.stream;
}

// Whether bytes of these come from a GPU, those of that stream aside: then the stream's order says
// which stay.
bool comes_from_gpu(const void *host, size_t bytes, std::optional<uint64_t> but_of = {})
{
    if (relay::any_to_host()) return true;
    for (unsigned s = 0; s < server_count(); s++)
        if (session_at(s)->comes_into(host, bytes, but_of)) return true;
    return false;
}

// Pinned memory is read when the stream gets to the copy: what GPUs and host functions write there
// until then counts.
bool is_still_written(const void *host, size_t bytes)
{
    return (any_function_under_way() || comes_from_gpu(host, bytes)) && find_host(host);
}

}  // namespace

CUresult copy_to_device(CUdeviceptr device, const void *host, size_t bytes, CUstream stream,
                        bool wait)
{
    if (relay::is_elsewhere(device))
        return relay::copy(device, reinterpret_cast<CUdeviceptr>(host), bytes, stream,
                           CopyWait::as_memory_says);
    Target t{device, 0, 0};
    if (CUresult r = prepare(stream, t)) return r;
    if (bytes && (!host || !is_device_range(device, bytes, Access::write)))
        return CUDA_ERROR_INVALID_VALUE;
    if (is_captured(t.stream))
        return bytes ? capture_copy(device, host, nullptr, bytes, stream) : CUDA_SUCCESS;
    // What kernels may have written there without the program knowing yet is the device's to copy.
    if (mirror::active())
        if (auto from = mirror::device_address(host))
            return copy_on_device(device, *from, bytes, stream);
    if (bytes && !relay::is_carrying() && is_still_written(host, bytes))
        return relay::copy(device, reinterpret_cast<CUdeviceptr>(host), bytes, stream,
                           wait ? CopyWait::always : CopyWait::as_memory_says);
    mirror::Work work;
    if (CUresult r = work.begin(t.stream, {device})) return r;
    constexpr size_t kChunk = wire::kMaxCopyBytes - 64;
    Blocks blocks(*session(), (bytes + kChunk - 1) / kChunk);
    for (auto p = static_cast<const char *>(host); bytes;) {
        t.bytes = std::min(bytes, kChunk);
        CUresult r = blocks.post(CallId::cuMemcpyHtoDAsync_v2, current_context(),
                                 [&](wire::Writer &w) { t.write(w); }, {p, t.bytes});
        if (r) return r;
        p += t.bytes, t.device += t.bytes, bytes -= t.bytes;
        if (bytes) session()->let_others();
    }
    return CUDA_SUCCESS;
}

CUresult copy_to_host(void *host, CUdeviceptr device, size_t bytes, CUstream stream, bool wait)
{
    if (relay::is_elsewhere(device))
        return relay::copy(reinterpret_cast<CUdeviceptr>(host), device, bytes, stream,
                           wait ? CopyWait::always : CopyWait::as_memory_says);
    Target t{device, bytes, 0};
    if (CUresult r = prepare(stream, t)) return r;
    if (!bytes) return CUDA_SUCCESS;
    if (!host || !is_device_range(device, bytes)) return CUDA_ERROR_INVALID_VALUE;
    if (is_captured(t.stream)) return capture_copy(device, nullptr, host, bytes, stream);
    if (mirror::active())
        if (auto to = mirror::device_address(host)) {
            CUresult r = copy_on_device(*to, device, bytes, stream);
            return r || !wait ? r : own::cuStreamSynchronize(stream);
        }
    // Of copies into the same memory the last one's bytes stay, whatever streams they were in.
    if (!relay::is_carrying() && comes_from_gpu(host, bytes, stream_key(t)))
        return relay::copy(reinterpret_cast<CUdeviceptr>(host), device, bytes, stream,
                           wait ? CopyWait::always : CopyWait::as_memory_says);
    if (wait && read_ahead::take(host, device, bytes, t.stream)) return CUDA_SUCCESS;
    if (CUresult r = mirror::before_read(device)) return r;
    const uint64_t mark = wait ? mirror::mark() : 0, asked = idle::moment();
    CUresult r = session()->copy_out(
        CallId::cuMemcpyDtoHAsync_v2, current_context(), [&](wire::Writer &w) { t.write(w); }, host,
        bytes, wait, stream_key(t));
    if (r || !wait) return r;
    if (!mirror::active()) idle::learn_stream(t.stream, asked);
    return mirror::reached_stream(mark, t.stream);
}

CUresult copy_on_device(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    if (!session()) return not_ready();
    if (CUresult r = context_state()) return r;
    if (relay::is_elsewhere(to) || relay::is_elsewhere(from))
        return relay::copy(to, from, bytes, stream, CopyWait::never);
    // Told at once, as a driver does; posted, it would surface later.
    if (bytes && (!is_device_range(to, bytes, Access::write) || !is_device_range(from, bytes)))
        return CUDA_ERROR_INVALID_VALUE;
    mirror::Work work;
    if (CUresult r = work.begin_in(stream, {to, from})) return r;
    return remote<CallId::cuMemcpyDtoDAsync_v2>(to, from, bytes, stream);
}

namespace {

// After a synchronous copy on the device the program may look at what the stream did before, and
// change memory that is shared.
CUresult settle(CUresult r, CUstream stream)
{
    return r || !mirror::active() ? r : own::cuStreamSynchronize(stream);
}
// After one to the device, other streams at what it brought.
CUresult settle_in(CUresult r, CUstream stream)
{
    return r || mirror::active() ? settle(r, stream) : sync_copies::after_copy(stream);
}

// Whether a copy between these contexts is one between servers, or for another than calls go to.
bool are_apart(CUcontext to, CUcontext from)
{
    const Slot *t = Handles::get().slot(to), *f = Handles::get().slot(from);
    return spanning() && t && f && (t->server != here() || f->server != here());
}

CUresult changed(CUresult r, CUdeviceptr to, CUstream stream)
{
    return r ? r : sync_copies::after_change(to, stream);
}

// cuMemcpy and cuMemcpyAsync: the addresses say the direction (unified addressing).
CUresult either(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream, bool synchronous)
{
    if (!session()) return not_ready();
    if (CUresult r = context_state()) return r;
    if (!bytes) return CUDA_SUCCESS;
    if (!to || !from) return CUDA_ERROR_INVALID_VALUE;
    const bool to_is = is_device_address(to), from_is = is_device_address(from);
    if ((!to_is && is_freed(to, bytes)) || (!from_is && is_freed(from, bytes)))
        return CUDA_ERROR_INVALID_VALUE;
    if (to_is && from_is) {
        if (synchronous && (relay::is_elsewhere(to) || relay::is_elsewhere(from)))
            return relay::copy(to, from, bytes, stream, CopyWait::always);
        CUresult r = copy_on_device(to, from, bytes, stream);
        return synchronous ? settle(r, stream) : r;
    }
    if (to_is) {
        CUresult r =
            copy_to_device(to, reinterpret_cast<const void *>(from), bytes, stream, synchronous);
        return synchronous ? settle_in(r, stream) : r;
    }
    if (from_is) {
        const bool wait = synchronous || !find_host(reinterpret_cast<void *>(to));
        return copy_to_host(reinterpret_cast<void *>(to), from, bytes, stream, wait);
    }
    // Host to host: in stream order, as far as the stream's past goes.
    if (CUresult r = own::cuStreamSynchronize(stream)) return r;
    memmove(reinterpret_cast<void *>(to), reinterpret_cast<const void *>(from), bytes);
    return CUDA_SUCCESS;
}

}  // namespace

namespace own {

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    return copy_to_device(to, from, bytes, stream, false);
}
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    // A copy to pageable memory has its bytes when it returns; one to pinned memory when the stream
    // gets there (CUDA Driver API, "API synchronization behavior").
    return copy_to_host(to, from, bytes, stream, !find_host(to));
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy_on_device(to, from, bytes, stream);
}
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                           CUcontext from_context, size_t bytes, CUstream stream)
{
    if (!session()) return not_ready();
    if (!to_context || !from_context) return CUDA_ERROR_INVALID_CONTEXT;
    if (are_apart(to_context, from_context))
        return relay::copy(to, to_context, from, from_context, bytes, stream, CopyWait::never);
    if (bytes && (!is_device_range(to, bytes, Access::write) || !is_device_range(from, bytes)))
        return CUDA_ERROR_INVALID_VALUE;
    mirror::Work work;
    if (CUresult r = work.begin_in(stream, {to, from})) return r;
    return remote<CallId::cuMemcpyPeerAsync>(to, to_context, from, from_context, bytes, stream);
}
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return either(to, from, bytes, stream, false);
}

// A batch in one stream does what its copies do one after the other; the attributes are hints about
// access order.
CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *to, CUdeviceptr *from, size_t *bytes, size_t count,
                               CUmemcpyAttributes *, size_t *, size_t, CUstream stream)
{
    if (count && (!to || !from || !bytes)) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        if (CUresult r = own::cuMemcpyAsync(to[i], from[i], bytes[i], stream)) return r;
    return CUDA_SUCCESS;
}
CUresult cuMemcpyBatchAsync(CUdeviceptr *to, CUdeviceptr *from, size_t *bytes, size_t count,
                            CUmemcpyAttributes *a, size_t *indices, size_t attributes,
                            size_t *failed, CUstream stream)
{
    CUresult r = own::cuMemcpyBatchAsync_v2(to, from, bytes, count, a, indices, attributes, stream);
    if (r && failed) *failed = SIZE_MAX;  // CUDA: the error belongs to no certain copy
    return r;
}

// Sets: refused at once where they would leave their allocation; the rest is posted.
#define SET(bits, type) \
    CUresult cuMemsetD##bits##Async(CUdeviceptr to, type value, size_t n, CUstream stream) \
    { \
        if (CUresult r = may_set(stream)) return r; \
        if (!may_be_set(to, 0, n, 1, sizeof value)) return CUDA_ERROR_INVALID_VALUE; \
        if (relay::is_elsewhere(to)) \
            return relay::change(to, n * sizeof value, stream, [=](CUstream s) { \
                return own::cuMemsetD##bits##Async(to, value, n, s); \
            }); \
        mirror::Work work; \
        if (CUresult r = work.begin_in(stream, {to})) return r; \
        return remote<CallId::cuMemsetD##bits##Async>(to, value, n, stream); \
    } \
    CUresult cuMemsetD2D##bits##Async(CUdeviceptr to, size_t pitch, type value, size_t width, \
                                      size_t height, CUstream stream) \
    { \
        if (CUresult r = may_set(stream)) return r; \
        if (!may_be_set(to, pitch, width, height, sizeof value)) return CUDA_ERROR_INVALID_VALUE; \
        if (relay::is_elsewhere(to)) \
            return relay::change(to, width * height * sizeof value, stream, [=](CUstream s) { \
                return own::cuMemsetD2D##bits##Async(to, pitch, value, width, height, s); \
            }); \
        const Waiting odd(height > 1 && (pitch % sizeof value || pitch < width * sizeof value)); \
        mirror::Work work; \
        if (CUresult r = work.begin_in(stream, {to})) return r; \
        return remote<CallId::cuMemsetD2D##bits##Async>(to, pitch, value, width, height, stream); \
    }
SET(8, unsigned char)
SET(16, unsigned short)
SET(32, unsigned int)
#undef SET

// The synchronous calls: the same on the legacy default stream, or (_ptds) on the thread's own.
#define SYNCHRONOUS(suffix, stream) \
    CUresult cuMemcpyHtoD_v2##suffix(CUdeviceptr to, const void *from, size_t bytes) \
    { \
        return settle_in(copy_to_device(to, from, bytes, stream, true), stream); \
    } \
    CUresult cuMemcpyDtoH_v2##suffix(void *to, CUdeviceptr from, size_t bytes) \
    { \
        return copy_to_host(to, from, bytes, stream, true); \
    } \
    CUresult cuMemcpyDtoD_v2##suffix(CUdeviceptr to, CUdeviceptr from, size_t bytes) \
    { \
        if (relay::is_elsewhere(to) || relay::is_elsewhere(from)) \
            return relay::copy(to, from, bytes, stream, CopyWait::always); \
        return changed(copy_on_device(to, from, bytes, stream), to, stream); \
    } \
    CUresult cuMemcpy##suffix(CUdeviceptr to, CUdeviceptr from, size_t bytes) \
    { \
        return either(to, from, bytes, stream, true); \
    } \
    CUresult cuMemcpyPeer##suffix(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, \
                                  CUcontext from_context, size_t bytes) \
    { \
        if (to_context && from_context && are_apart(to_context, from_context)) \
            return relay::copy(to, to_context, from, from_context, bytes, stream, \
                               CopyWait::always); \
        return changed(own::cuMemcpyPeerAsync(to, to_context, from, from_context, bytes, stream), \
                       to, stream); \
    } \
    CUresult cuMemsetD8_v2##suffix(CUdeviceptr to, unsigned char value, size_t n) \
    { \
        return changed(own::cuMemsetD8Async(to, value, n, stream), to, stream); \
    } \
    CUresult cuMemsetD16_v2##suffix(CUdeviceptr to, unsigned short value, size_t n) \
    { \
        return changed(own::cuMemsetD16Async(to, value, n, stream), to, stream); \
    } \
    CUresult cuMemsetD32_v2##suffix(CUdeviceptr to, unsigned int value, size_t n) \
    { \
        return changed(own::cuMemsetD32Async(to, value, n, stream), to, stream); \
    } \
    CUresult cuMemsetD2D8_v2##suffix(CUdeviceptr to, size_t pitch, unsigned char value, \
                                     size_t width, size_t height) \
    { \
        return changed(own::cuMemsetD2D8Async(to, pitch, value, width, height, stream), to, \
                       stream); \
    } \
    CUresult cuMemsetD2D16_v2##suffix(CUdeviceptr to, size_t pitch, unsigned short value, \
                                      size_t width, size_t height) \
    { \
        return changed(own::cuMemsetD2D16Async(to, pitch, value, width, height, stream), to, \
                       stream); \
    } \
    CUresult cuMemsetD2D32_v2##suffix(CUdeviceptr to, size_t pitch, unsigned int value, \
                                      size_t width, size_t height) \
    { \
        return changed(own::cuMemsetD2D32Async(to, pitch, value, width, height, stream), to, \
                       stream); \
    }
SYNCHRONOUS(, nullptr)
SYNCHRONOUS(_ptds, CU_STREAM_PER_THREAD)
#undef SYNCHRONOUS

}  // namespace own

}  // namespace rgpu::interpose
