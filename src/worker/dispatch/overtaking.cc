#include "worker/dispatch/overtaking.h"

#include "worker/calls/bodies.h"
#include "worker/driver/driver.h"
#include "worker/session/stream_order.h"

namespace rgpu::worker {

namespace {

bool stream_is_apart(Session &s, const Call &call, HandleId id)
{
    CUstream stream = nullptr;
    return !s.objects.get(id, stream) && is_apart(s, stream_key(call, id), stream);
}

// Behind the stream's copy, if it has one. False: it is not there.
bool record_behind(Session &s, const Call &call, HandleId event_id, HandleId stream_id)
{
    CUevent event = nullptr;
    CUstream stream = nullptr;
    if (s.objects.get(event_id, event) || !event || s.objects.get(stream_id, stream)) return false;
    return s.copies.behind(stream_key(call, stream_id), event_id, [&s, call, event, stream] {
        s.finish(call, DRIVER(cuEventRecord)(event, stream));
    });
}

enum class Place { apart, behind, unknown };

// What a call's own parameters say; `behind`: it was seen to.
Place place_of(Session &s, const Call &call)
{
    wire::Reader r = call.body;
    const auto apart = [](bool yes) { return yes ? Place::apart : Place::unknown; };
    switch (call.id) {
    // In no order with streams, or seen to in their own code.
    case CallId::cuCtxSynchronize:
    case CallId::cuEventCreate:
    case CallId::cuEventSynchronize:
    case CallId::cuMemAlloc_v2:
    case CallId::cuMemGetInfo_v2:
    case CallId::cuMemcpyHtoDAsync_v2:
    case CallId::cuStreamCreateWithPriority:
    case CallId::cuStreamSynchronize: return Place::apart;
    case CallId::cuMemcpyDtoHAsync_v2: {
        const CopyTarget t(r);
        const bool opens = !call.caller_waits() && t.bytes >= Copies::kLarge;
        const auto same = [key = stream_key(call, t.stream)](
                              Copies::Key stream, const Copies::Copy &) { return stream == key; };
        return apart((opens && !s.copies.which_open(same).empty()) ||
                     stream_is_apart(s, call, t.stream));
    }
    case CallId::cuLaunchKernel: {
        const auto head = r.value<LaunchHead>();
        return apart(!head.attributes &&
                     stream_is_apart(s, call, head.stream));  // an attribute may name an event
    }
    // The word that a host function is over, which a stream with an open copy may wait for.
    case CallId::cuLaunchHostFunc:
        return apart(r.value<HostFunctionStep>() == HostFunctionStep::done);
    case CallId::cuStreamQuery: {
        const auto stream = r.value<HandleId>();
        if (stream_is_apart(s, call, stream)) return Place::apart;
        CUstream known = nullptr;
        if (!r.at_end() || s.objects.get(stream, known)) return Place::unknown;
        s.finish(call, CUDA_ERROR_NOT_READY);
        return Place::behind;
    }
    case CallId::cuEventQuery: {
        const auto event = r.value<HandleId>();
        if (!r.at_end() || !s.copies.behind_what(event)) return Place::apart;
        s.finish(call, CUDA_ERROR_NOT_READY);
        return Place::behind;
    }
    case CallId::cuEventRecord: {
        const auto event = r.value<HandleId>(), stream = r.value<HandleId>();
        if (r.at_end() && record_behind(s, call, event, stream)) return Place::behind;
        return apart(!s.copies.behind_what(event) && stream_is_apart(s, call, stream));
    }
    case CallId::cuStreamWaitEvent: {
        const auto stream = r.value<HandleId>(), event = r.value<HandleId>();
        return apart(!s.copies.behind_what(event) && stream_is_apart(s, call, stream));
    }
    default: return Place::unknown;
    }
}

}  // namespace

bool stays_behind(Session &s, Call &call)
{
    const Place place = place_of(s, call);
    if (place == Place::unknown) close_copies(s);
    return place == Place::behind;
}

}  // namespace rgpu::worker
