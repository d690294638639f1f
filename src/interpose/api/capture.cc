// SPDX-License-Identifier: Apache-2.0
// The calls that begin, join, watch and end captures.
#include "interpose/state/capture.h"

#include <algorithm>

#include "interpose/graph/node_memory.h"
#include "interpose/link/waiting.h"
#include "interpose/mirror/mirror.h"
#include "interpose/span/relay.h"
#include "interpose/state/idle.h"
#include "interpose/stream/pools.h"
#include "interpose/stub/by_hand.h"
#include "interpose/stub/stub.h"

namespace rgpu::interpose {

namespace {

bool known(CUstreamCaptureMode m)
{
    return m == CU_STREAM_CAPTURE_MODE_GLOBAL || m == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL ||
           m == CU_STREAM_CAPTURE_MODE_RELAXED;
}

// Begins a capture on the server by `call`.
template <class Call> CUresult begin(CUstream stream, CUstreamCaptureMode mode, Call call)
{
    HandleId origin = 0;
    if (CUresult r = detail::id_in(stream, origin)) return r;
    NewCapture capture(origin, mode);
    if (CUresult r = call()) return r;
    capture.begun();
    return CUDA_SUCCESS;
}

// Records by `call`, and lets everyone know who has to.
template <class Call> CUresult record(CUevent event, CUstream stream, unsigned flags, Call call)
{
    HandleId s = 0, e = 0;
    if (!session() || detail::id_in(stream, s) || detail::id_in(event, e)) return call();
    if (!(flags & CU_EVENT_RECORD_EXTERNAL) && any_capture()) note_captured_record(e, s);
    if (mirror::active()) mirror::note_event(event, stream);
    idle::recording(e);
    pools::records(e, s);
    // Another process may wait for it as soon as this call has returned.
    const Waiting told(Handles::get().at(e)->flags & CU_EVENT_INTERPROCESS);
    CUresult r = call();
    if (r) pools::records_nothing(e);
    idle::recorded_in(e, s);
    return r;
}

// Whether the wait for an event of another server's would take a capture there, which is then
// invalid.
bool leaves_capture(HandleId event, unsigned flags)
{
    if (!any_capture() || flags & CU_EVENT_WAIT_EXTERNAL) return false;
    if (!invalidate_capture_of(event)) return false;
    relay::not_in_graph();
    return true;
}

struct Info {
    CUstreamCaptureStatus *status;
    cuuint64_t *id;
    CUgraph *graph;
    const CUgraphNode **after;
    const CUgraphEdgeData **edges;
    size_t *count;
};

// Body: number of the stream. Answer: status, id, number of the graph, count of nodes, their
// numbers and edges.
CUresult capture_info(CUstream stream, const Info &out)
{
    if (!session()) return not_ready();
    HandleId number = 0;
    if (CUresult r = detail::id_in(stream, number)) return r;
    if (number < calls::kFirstHandle)
        if (CUresult r = context_state()) return r;
    if (!out.status) return CUDA_ERROR_INVALID_VALUE;
    *out.status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (!any_capture()) return CUDA_SUCCESS;
    const bool invalid = is_invalid_capture(number);
    Reply reply;
    CUresult r = session()->ask(
        CallId::cuStreamGetCaptureInfo_v3, current_context(),
        [&](wire::Writer &w) { w.value(number); }, reply);
    if (r) return r;
    wire::Reader answer(reply.body.data(), reply.body.size());
    *out.status = answer.value<CUstreamCaptureStatus>();
    if (!answer.ok()) return CUDA_ERROR_UNKNOWN;
    if (*out.status == CU_STREAM_CAPTURE_STATUS_ACTIVE && invalid)
        *out.status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    if (*out.status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
    const auto id = answer.value<cuuint64_t>();
    const auto graph = answer.value<HandleId>();
    const size_t n = answer.count(sizeof(HandleId) + sizeof(CUgraphEdgeData));
    // The arrays are the driver's own, until the stream is asked again.
    std::vector<uint8_t> arrays(n * (sizeof(CUgraphNode) + sizeof(CUgraphEdgeData)));
    CUgraph found_graph = detail::found<CUgraph>(graph, calls::kNoHandle);
    const HandleId owner = Handles::get().id(found_graph).value_or(calls::kNoHandle);
    std::vector<CUgraphNode> nodes;
    for (size_t i = 0; i < n; i++)
        nodes.push_back(detail::found<CUgraphNode>(answer.value<HandleId>(), owner));
    if (n) memcpy(arrays.data(), nodes.data(), n * sizeof(CUgraphNode));
    if (const uint8_t *p = answer.bytes(n * sizeof(CUgraphEdgeData)); p && n)
        memcpy(arrays.data() + n * sizeof(CUgraphNode), p, n * sizeof(CUgraphEdgeData));
    if (!answer.ok()) return CUDA_ERROR_UNKNOWN;
    const bool plain = std::all_of(arrays.begin() + static_cast<ptrdiff_t>(n * sizeof(CUgraphNode)),
                                   arrays.end(), [](uint8_t b) { return b == 0; });
    if (!out.edges && !plain) return CUDA_ERROR_LOSSY_QUERY;
    uint8_t *kept = keep(number, std::move(arrays));
    if (out.id) *out.id = id;
    if (out.graph) *out.graph = found_graph;
    if (out.after) *out.after = reinterpret_cast<const CUgraphNode *>(kept);
    if (out.edges)
        *out.edges =
            plain ? nullptr
                  : reinterpret_cast<const CUgraphEdgeData *>(kept + n * sizeof(CUgraphNode));
    if (out.count) *out.count = n;
    return CUDA_SUCCESS;
}

}  // namespace

namespace own {

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
    if (!session()) return not_ready();
    if (!known(mode)) return CUDA_ERROR_INVALID_VALUE;
    return begin(stream, mode, [&] {
        return remote<CallId::cuStreamBeginCapture_v2>(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    });
}

CUresult cuStreamBeginCapture(CUstream stream)
{
    return own::cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *after,
                                     const CUgraphEdgeData *edges, size_t count,
                                     CUstreamCaptureMode mode)
{
    if (!session()) return not_ready();
    if (!known(mode)) return CUDA_ERROR_INVALID_VALUE;
    return begin(stream, mode, [&] {
        return remote<CallId::cuStreamBeginCaptureToGraph>(stream, graph, after, edges, count,
                                                           CU_STREAM_CAPTURE_MODE_RELAXED);
    });
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    if (!session()) return not_ready();
    HandleId number = 0;
    if (CUresult r = detail::id_in(stream, number)) return r;
    bool invalid = false;
    if (const auto ending = ending_capture(number)) {
        if (ending->wrong_thread) return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
        invalid = ending->invalid;
    }
    CUresult r = remote<CallId::cuStreamEndCapture>(stream, graph);
    // A stream that is not the origin of a capture leaves it as it was.
    if (r == CUDA_ERROR_STREAM_CAPTURE_UNMATCHED) return r;
    end_capture(number);
    if (!r && invalid) {
        if (graph && *graph) own::cuGraphDestroy(*graph);
        if (graph) *graph = nullptr;
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    if (r && graph) *graph = nullptr;
    return r;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    if (!session()) return not_ready();
    if (!mode || !known(*mode)) return CUDA_ERROR_INVALID_VALUE;
    *mode = exchange_capture_mode(*mode);
    return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    return capture_info(stream, {status, nullptr, nullptr, nullptr, nullptr, nullptr});
}

CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id)
{
    return capture_info(stream, {status, id, nullptr, nullptr, nullptr, nullptr});
}

CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
                                   CUgraph *graph, const CUgraphNode **after, size_t *count)
{
    return capture_info(stream, {status, id, graph, after, nullptr, count});
}

CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
                                   CUgraph *graph, const CUgraphNode **after,
                                   const CUgraphEdgeData **edges, size_t *count)
{
    return capture_info(stream, {status, id, graph, after, edges, count});
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    return record(event, stream, 0, [&] { return remote<CallId::cuEventRecord>(event, stream); });
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags)
{
    if (flags & ~unsigned{CU_EVENT_RECORD_EXTERNAL} && Handles::get().slot(event))
        return CUDA_ERROR_INVALID_VALUE;
    return record(event, stream, flags,
                  [&] { return remote<CallId::cuEventRecordWithFlags>(event, stream, flags); });
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
    HandleId s = 0, e = 0;
    if (spanning() && Handles::get().slot(event) && !is_here(e = *Handles::get().id(event)))
        return leaves_capture(e, flags) ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
                                        : relay::wait_event(stream, event);
    if (any_capture() && !(flags & CU_EVENT_WAIT_EXTERNAL) && !detail::id_in(stream, s) &&
        !detail::id_in(event, e))
        if (CUresult r = join_capture(s, e)) return r;
    pools::StreamWait wait(stream, event);
    CUresult r = remote<CallId::cuStreamWaitEvent>(stream, event, flags);
    if (!r) wait.sent();
    return r;
}

// A stream that ends takes its capture along.
CUresult cuStreamDestroy_v2(CUstream stream)
{
    HandleId id = 0;
    if (any_capture() && !detail::id_in(stream, id)) forget_captured_stream(id);
    pools::stream_ends(stream);
    return remote<CallId::cuStreamDestroy_v2>(stream);
}
CUresult cuStreamDestroy(CUstream stream) { return own::cuStreamDestroy_v2(stream); }

}  // namespace own

}  // namespace rgpu::interpose
