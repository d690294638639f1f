// SPDX-License-Identifier: Apache-2.0
#include "interpose/span/relay.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>

#include "interpose/base/log.h"
#include "interpose/mirror/mirror.h"
#include "interpose/state/capture.h"
#include "interpose/state/client.h"
#include "interpose/state/idle.h"
#include "interpose/stream/box.h"
#include "interpose/stream/callback.h"
#include "interpose/stub/by_hand.h"
#include "interpose/stub/stub.h"

namespace rgpu::interpose::relay {

namespace {

constexpr size_t kPiece = size_t{2} << 20;

using Owner = std::optional<AddressOwner>;  // none: the program's memory

// A stream of our own, beside the program's: one that is not used, or a new one. It goes back when
// the last holder is gone.
struct Side {
    AddressOwner at;
    CUstream stream = nullptr;
    uint32_t stamp = 0;
};

struct Sides {
    std::mutex mutex;
    std::map<HandleId, std::vector<Side>> idle;  // by context
};

Sides &sides() { return client_part<Sides>(Part::side_streams); }

bool lives(const Side &s)
{
    const Slot *slot = Handles::get().slot(s.stream);
    return slot && slot->stamp == s.stamp;
}

using SideHeld = std::shared_ptr<const Side>;

CUresult take_side(const AddressOwner &at, SideHeld &held)
{
    Side side{at, nullptr, 0};
    {
        std::lock_guard lock(sides().mutex);
        auto &idle = sides().idle[at.context];
        while (!side.stream && !idle.empty()) {
            if (lives(idle.back())) side = idle.back();  // others ended with their context
            idle.pop_back();
        }
    }
    if (!side.stream) {
        const At there(at.server, at.context);
        if (CUresult r = own::cuStreamCreateWithPriority(&side.stream, CU_STREAM_NON_BLOCKING, 0))
            return r;
        if (const Slot *slot = Handles::get().slot(side.stream)) side.stamp = slot->stamp;
    }
    held = SideHeld(new Side(side), [](const Side *s) {
        guard("copies between servers", [s] {
            std::lock_guard lock(sides().mutex);
            sides().idle[s->at.context].push_back(*s);
            return CUDA_SUCCESS;
        });
        delete s;
    });
    return CUDA_SUCCESS;
}

Owner owner_of(CUmemorytype type, CUdeviceptr address, CUarray array)
{
    if (type == CU_MEMORYTYPE_ARRAY) {
        const HandleId id = Handles::get().id(array).value_or(calls::kNoHandle);
        return id ? Owner({Handles::get().at(id)->server, context_of(id)}) : std::nullopt;
    }
    return type == CU_MEMORYTYPE_HOST ? std::nullopt : owner_of_address(address);
}
Owner source_of(const CUDA_MEMCPY3D &c)
{
    return owner_of(c.srcMemoryType, c.srcDevice, c.srcArray);
}
Owner destination_of(const CUDA_MEMCPY3D &c)
{
    return owner_of(c.dstMemoryType, c.dstDevice, c.dstArray);
}

// The streams that a copy uses at either end: the default ones, or ours.
struct Ends {
    SideHeld to, from;

    CUresult take(const Owner &t, const Owner &f)
    {
        if (t)
            if (CUresult r = take_side(*t, to)) return r;
        return f ? take_side(*f, from) : CUDA_SUCCESS;
    }
    CUstream at_destination() const { return to ? to->stream : nullptr; }
    CUstream at_source() const { return from ? from->stream : nullptr; }
};

// A part of the box as a box of its own.
CUDA_MEMCPY3D part(const CUDA_MEMCPY3D &c, size_t x, size_t y, size_t z, size_t width,
                   size_t height)
{
    CUDA_MEMCPY3D p = c;
    if (!p.srcPitch) p.srcPitch = c.WidthInBytes;
    if (!p.dstPitch) p.dstPitch = c.WidthInBytes;
    p.srcXInBytes += x, p.srcY += y, p.srcZ += z;
    p.dstXInBytes += x, p.dstY += y, p.dstZ += z;
    p.WidthInBytes = width, p.Height = height, p.Depth = 1;
    return p;
}

// From one server to another: a piece comes while the other server takes the one before.
CUresult by_pieces(const CUDA_MEMCPY3D &c, const AddressOwner &to, const AddressOwner &from,
                   const Ends &ends)
{
    const size_t width = std::min(c.WidthInBytes, kPiece),
                 rows = std::clamp(kPiece / width, size_t{1}, c.Height);
    std::vector<uint8_t> bytes(width * rows);
    for (size_t z = 0; z < c.Depth; z++)
        for (size_t y = 0; y < c.Height; y += rows)
            for (size_t x = 0; x < c.WidthInBytes; x += width) {
                CUDA_MEMCPY3D in = part(c, x, y, z, std::min(width, c.WidthInBytes - x),
                                        std::min(rows, c.Height - y)),
                              out = in;
                CUDA_MEMCPY3D here = packed(in, 0);
                here.srcMemoryType = here.dstMemoryType = CU_MEMORYTYPE_HOST;
                here.srcHost = here.dstHost = bytes.data();
                destination_from(in, here);
                source_from(out, here);
                {
                    const At there(from.server, from.context);
                    if (CUresult r = copy_box(in, ends.at_source(), CopyWait::always)) return r;
                }
                const At there(to.server, to.context);
                if (CUresult r = copy_box(out, ends.at_destination(), CopyWait::never)) return r;
            }
    const At there(to.server, to.context);
    return own::cuStreamSynchronize(ends.at_destination());
}

// Whether this thread carries a copy out: what it frees for that waits for no other.
constinit thread_local int t_carrying = 0;
struct Carrying {
    Carrying() { t_carrying++; }
    ~Carrying() { t_carrying--; }
};

// Carries the copy out and waits for it.
CUresult carry_out(const CUDA_MEMCPY3D &c, const Owner &to, const Owner &from, const Ends &ends)
{
    const Carrying carrying;
    if (to && from && to->server != from->server) return by_pieces(c, *to, *from, ends);
    const AddressOwner &there = to ? *to : *from;
    const CUstream stream = to ? ends.at_destination() : ends.at_source();
    const At at(there.server, there.context);
    CUresult r = copy_box(c, stream, CopyWait::always);
    return r ? r : own::cuStreamSynchronize(stream);
}

// How many copies and changes wait for their streams, or are carried out.
struct UnderWay {
    std::mutex mutex;
    std::condition_variable fewer;
    size_t count = 0;
};
UnderWay &under_way() { return client_part<UnderWay>(Part::relayed_work); }

std::atomic<uint32_t> &to_host_under_way() { return client_counter(Counter::relayed_to_host); }

// Held by each of them.
using Counted = std::shared_ptr<void>;
Counted count_one(bool to_host = false)
{
    {
        std::lock_guard lock(under_way().mutex);
        under_way().count++;
        to_host_under_way() += to_host;
    }
    return Counted(nullptr, [to_host](void *) {
        std::lock_guard lock(under_way().mutex);
        under_way().count--;
        to_host_under_way() -= to_host;
        under_way().fewer.notify_all();
    });
}

// Streams that a copy or change has failed in.
struct Failed {
    HandleId stream = 0, context = 0;
    uint32_t stamp = 0;
    CUresult why = CUDA_SUCCESS;

    // A default stream is as long as its context.
    bool is_there() const
    {
        if (stream < calls::kFirstHandle) return true;
        const Slot *s = Handles::get().at(stream);
        return s->kind.load(std::memory_order_acquire) == HandleKind::stream && s->stamp == stamp;
    }
};
struct AllFailed {
    std::mutex mutex;
    std::vector<Failed> all;
};
AllFailed &failed() { return client_part<AllFailed>(Part::failed_streams); }
template <class Which> CUresult first_error(Which which)
{
    std::lock_guard lock(failed().mutex);
    std::erase_if(failed().all, [](const Failed &f) { return !f.is_there(); });
    for (const Failed &f : failed().all)
        if (which(f)) return f.why;
    return CUDA_SUCCESS;
}

// Before it is given to the stream: what to note if it fails.
Failed in_stream(HandleId stream)
{
    if (stream < calls::kFirstHandle) return {stream, current_context(), 0, CUDA_SUCCESS};
    return {stream, context_of(stream), Handles::get().at(stream)->stamp, CUDA_SUCCESS};
}
const char *name_of(const Owner &o)
{
    return o ? session_at(o->server)->server().c_str() : "the program's memory";
}

// What the program can no longer be told at the call.
void note_failed(Failed f, CUresult why, size_t bytes, const Owner &to, const Owner &from)
{
    say("a copy of %zu bytes from %s to %s has failed (CUDA error %d): its stream answers this "
        "error from now on",
        bytes, name_of(from), name_of(to), static_cast<int>(why));
    f.why = why;
    std::lock_guard lock(failed().mutex);
    failed().all.push_back(f);
    client_counter(Counter::any_failed_stream) = 1;
}

CUresult state_of(const Owner &o) { return o ? session_at(o->server)->state() : CUDA_SUCCESS; }

CUresult not_in_capture(HandleId stream)
{
    not_in_graph();
    note_capture_result(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

// Waits for all that was given to the context. In a capture CUDA allows only to wait for its
// default stream.
CUresult wait_for_all(const AddressOwner &at)
{
    const At there(at.server, at.context);
    return any_capture() ? own::cuStreamSynchronize(nullptr) : own::cuCtxSynchronize();
}

// Whether a side in linear device memory lies in its allocation. How large arrays are its server
// knows.
bool fits(const Owner &at, CUmemorytype type, CUdeviceptr base, size_t pitch, size_t rows, size_t x,
          size_t y, size_t z, const CUDA_MEMCPY3D &c)
{
    if (!at || type == CU_MEMORYTYPE_ARRAY) return true;
    const At there(at->server, at->context);
    pitch = pitch ? pitch : c.WidthInBytes;
    rows = rows ? rows : c.Depth > 1 ? c.Height : 1;
    const size_t bytes = ((c.Depth - 1) * rows + c.Height - 1) * pitch + c.WidthInBytes;
    return pitch >= x + c.WidthInBytes && is_device_range(base + x + (y + z * rows) * pitch, bytes);
}
bool fits_source(const CUDA_MEMCPY3D &c, const Owner &at)
{
    return fits(at, c.srcMemoryType, c.srcDevice, c.srcPitch, c.srcHeight, c.srcXInBytes, c.srcY,
                c.srcZ, c);
}
bool fits_destination(const CUDA_MEMCPY3D &c, const Owner &at)
{
    return fits(at, c.dstMemoryType, c.dstDevice, c.dstPitch, c.dstHeight, c.dstXInBytes, c.dstY,
                c.dstZ, c);
}

CUresult copy(const CUDA_MEMCPY3D &c, const Owner &to, const Owner &from, CUstream stream,
              CopyWait when)
{
    if (!session()) return not_ready();
    if (CUresult r = context_state()) return r;
    if (!c.WidthInBytes || !c.Height || !c.Depth) return CUDA_SUCCESS;
    if (!to && !from) return CUDA_ERROR_INVALID_VALUE;
    HandleId id = 0;
    if (CUresult r = detail::id_in(stream, id)) return r;
    if (CUresult r = may_give_work(id)) return r;
    if (is_captured(id)) return not_in_capture(id);
    for (const Owner &o : {to, from})
        if (CUresult r = state_of(o)) return r;
    if (!fits_source(c, from) || !fits_destination(c, to)) return CUDA_ERROR_INVALID_VALUE;
    // CUDA Programming Guide, "Peer-to-Peer Memory Copy": between two GPUs in the NULL stream it
    // begins when all that was given to either is over, and is over before what comes later to
    // either begins.
    if (id < calls::kFirstHandle && to && from) {
        CUresult r = own::cuStreamSynchronize(stream);
        if (!r) r = wait_for_all(*to);
        if (!r) r = wait_for_all(*from);
        return r ? r : carry_out(c, to, from, {});
    }
    const bool from_host = !from, to_host = !to;
    const void *host =
        from_host ? (c.srcMemoryType == CU_MEMORYTYPE_HOST ? c.srcHost
                                                           : reinterpret_cast<void *>(c.srcDevice))
                  : (c.dstMemoryType == CU_MEMORYTYPE_HOST ? c.dstHost
                                                           : reinterpret_cast<void *>(c.dstDevice));
    const bool pageable = (from_host || to_host) && !find_host(host);
    // A synchronous copy is one of the default streams.
    const bool synchronous = when == CopyWait::always && id < calls::kFirstHandle;
    Ends ends;
    if (!synchronous)
        if (CUresult r = ends.take(to, from)) return r;
    if (when == CopyWait::always || pageable) {
        CUresult r = own::cuStreamSynchronize(stream);
        return r ? r : carry_out(c, to, from, ends);
    }
    return call_in_stream(
        stream, [=, one = count_one(to_host), failing = in_stream(id)](CUresult status) {
            if (!status) status = carry_out(c, to, from, ends);
            if (status) note_failed(failing, status, c.WidthInBytes * c.Height * c.Depth, to, from);
        });
}

CUDA_MEMCPY3D row(CUdeviceptr to, bool to_host, CUdeviceptr from, bool from_host, size_t bytes)
{
    CUDA_MEMCPY3D c{};
    c.srcMemoryType = from_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    c.dstMemoryType = to_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    c.srcDevice = from, c.srcHost = reinterpret_cast<void *>(from);
    c.dstDevice = to, c.dstHost = reinterpret_cast<void *>(to);
    c.srcPitch = c.dstPitch = c.WidthInBytes = bytes;
    c.srcHeight = c.dstHeight = c.Height = c.Depth = 1;
    return c;
}

}  // namespace

bool any_to_host() { return to_host_under_way() != 0; }
bool is_carrying() { return t_carrying != 0; }

// A stream whose server is lost never comes to its copies.
void settle()
{
    using namespace std::chrono_literals;
    const auto all_live = [] {
        for (unsigned s = 0; s < server_count(); s++)
            if (session_at(s)->state()) return false;
        return true;
    };
    if (t_carrying) return;
    std::unique_lock lock(under_way().mutex);
    while (under_way().count && all_live()) under_way().fewer.wait_for(lock, 100ms);
}

CUresult must_be_here(CUdeviceptr address)
{
    if (!is_elsewhere(address)) return CUDA_SUCCESS;
    static std::atomic<bool> said{false};
    if (!said.exchange(true))
        say("a stream cannot wait for or write values in memory of another server's GPU: use an "
            "event, "
            "or ask for GPUs of one server (without --rgpu-span)");
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult not_in_graph()
{
    static std::atomic<bool> said{false};
    if (!said.exchange(true))
        say("a graph cannot span GPUs of two servers: make one of each server's work, and copy or "
            "wait for events between "
            "their launches, or ask for GPUs of one server (without --rgpu-span)");
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult graph_is_elsewhere(HandleId exec)
{
    static std::atomic<bool> said{false};
    if (!said.exchange(true))
        say("a graph of server %s cannot be launched in a stream of another server's GPU: launch "
            "it in a stream of its own GPU, with "
            "events between the two streams, or ask for GPUs of one server (without --rgpu-span)",
            session_at(Handles::get().at(exec)->server)->server().c_str());
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult error_of_stream(HandleId stream)
{
    if (stream < calls::kFirstHandle) return error_of_context(current_context());
    return first_error([&](const Failed &f) { return f.stream == stream; });
}
CUresult error_of_context(HandleId context)
{
    return first_error([&](const Failed &f) { return f.context == context; });
}

bool is_elsewhere(const CUDA_MEMCPY3D &c)
{
    if (!spanning()) return false;
    const Owner from = source_of(c), to = destination_of(c);
    return (from && from->server != here()) || (to && to->server != here());
}

CUresult copy(const CUDA_MEMCPY3D &c, CUstream stream, CopyWait when)
{
    return copy(c, destination_of(c), source_of(c), stream, when);
}

CUresult copy(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream, CopyWait when)
{
    const Owner t = owner_of_address(to), f = owner_of_address(from);
    return copy(row(to, !t, from, !f, bytes), t, f, stream, when);
}

CUresult copy(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
              size_t bytes, CUstream stream, CopyWait when)
{
    const Slot *t = Handles::get().slot(to_context), *f = Handles::get().slot(from_context);
    if (!t || !f) return CUDA_ERROR_INVALID_CONTEXT;
    const Owner in_to({t->server, *Handles::get().id(to_context)}),
        in_from({f->server, *Handles::get().id(from_context)});
    return copy(row(to, false, from, false, bytes), in_to, in_from, stream, when);
}

CUresult change(CUdeviceptr memory, size_t bytes, CUstream stream,
                std::function<CUresult(CUstream)> change)
{
    const Owner owner = owner_of_address(memory);
    HandleId id = 0;
    if (!owner) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult r = detail::id_in(stream, id)) return r;
    if (is_captured(id)) return not_in_capture(id);
    if (CUresult r = state_of(owner)) return r;
    SideHeld side;
    if (CUresult r = take_side(*owner, side)) return r;
    return call_in_stream(stream, [=, one = count_one(), failing = in_stream(id)](CUresult status) {
        const At there(owner->server, owner->context);
        const Carrying carrying;
        if (!status) status = change(side->stream);
        if (!status) status = own::cuStreamSynchronize(side->stream);
        if (status) note_failed(failing, status, bytes, owner, std::nullopt);
    });
}

CUresult wait_event(CUstream stream, CUevent event)
{
    const HandleId e = *Handles::get().id(event);
    const AddressOwner at{Handles::get().at(e)->server, context_of(e)};
    HandleId id = 0;
    if (CUresult r = detail::id_in(stream, id)) return r;
    if (is_captured(id)) return not_in_capture(id);
    SideHeld side;
    {
        const At there(at.server, at.context);
        if (!mirror::active() && idle::event(e)) return CUDA_SUCCESS;
        if (CUresult r = take_side(at, side)) return r;
        // Now: what is waited for is the event's last record, whatever is recorded later.
        if (CUresult r = own::cuStreamWaitEvent(side->stream, event, 0)) return r;
    }
    return call_in_stream(stream, [=](CUresult status) {
        const At there(at.server, at.context);
        if (!status)
            own::cuStreamSynchronize(side->stream);  // a server that is lost holds nobody up
    });
}

}  // namespace rgpu::interpose::relay
