// SPDX-License-Identifier: Apache-2.0
// Stream capture: CUDA Driver API, "Stream Management", cuStreamBeginCapture and what follows.
#include <set>

#include "softgpu/driver/api/export.h"
#include "softgpu/driver/graph/capture_state.h"
#include "softgpu/driver/state/current.h"
#include "softgpu/driver/state/driver.h"
#include "softgpu/driver/state/stream.h"

namespace rgpu::softgpu::driver {

namespace {

bool known(CUstreamCaptureMode m)
{
    return m == CU_STREAM_CAPTURE_MODE_GLOBAL || m == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL ||
           m == CU_STREAM_CAPTURE_MODE_RELAXED;
}

// Nodes of one graph; an empty handle or a stranger is INVALID_VALUE.
CUresult find_nodes(const Graph &graph, const CUgraphNode *handles, size_t count,
                    std::vector<NodeRef> &nodes)
{
    if (count && !handles) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        nodes.push_back(driver().graph_nodes.find(handles[i]));
        if (!nodes.back() || nodes.back()->graph != &graph) return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult begin_in(CUstream handle, std::shared_ptr<Graph> given, const CUgraphNode *after,
                  size_t count, CUstreamCaptureMode mode)
{
    static std::atomic<uint64_t> next_id = 1;
    std::shared_ptr<Stream> s;
    if (CUresult rc = find_stream(handle, s)) return rc;
    if (!known(mode)) return CUDA_ERROR_INVALID_VALUE;
    if (s->kind == Stream::Kind::legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    std::lock_guard lock(graph_lock());
    if (s->captured.capture) return CUDA_ERROR_ILLEGAL_STATE;
    auto capture = std::make_shared<Capture>();
    std::vector<NodeRef> nodes;
    capture->owns_graph = !given;
    capture->graph = given ? given : std::make_shared<Graph>();
    if (CUresult rc = find_nodes(*capture->graph, after, count, nodes)) return rc;
    capture->id = next_id++;
    capture->mode = mode;
    capture->thread = std::this_thread::get_id();
    capture->origin = s.get();
    if (!given) publish(capture->graph);
    begin(s, capture);
    add_place(s->captured, nodes);
    return CUDA_SUCCESS;
}

CUresult begin_v2(CUstream stream, CUstreamCaptureMode mode)
{
    return begin_in(stream, nullptr, nullptr, 0, mode);
}

CUresult begin_v1(CUstream stream) { return begin_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL); }

CUresult begin_to_graph(CUstream stream, CUgraph handle, const CUgraphNode *after,
                        const CUgraphEdgeData *, size_t count, CUstreamCaptureMode mode)
{
    auto graph = driver().graphs.find(handle);
    return graph ? begin_in(stream, graph, after, count, mode) : CUDA_ERROR_INVALID_VALUE;
}

// Whether all that other streams did comes before the origin's end.
bool joined(const Capture &capture)
{
    std::set<const GraphNode *> seen;
    std::vector<const GraphNode *> open;
    for (const NodeRef &n : capture.origin->captured.after) open.push_back(n.get());
    while (!open.empty()) {
        const GraphNode *n = open.back();
        open.pop_back();
        if (!seen.insert(n).second) continue;
        open.insert(open.end(), n->after.begin(), n->after.end());
    }
    const auto all_seen = [&](const std::vector<NodeRef> &nodes) {
        for (const NodeRef &n : nodes)
            if (n->graph && !seen.count(n.get())) return false;
        return true;
    };
    for (const auto &weak : capture.streams)
        if (auto s = weak.lock(); s && !all_seen(s->captured.after)) return false;
    return all_seen(capture.left);
}

CUresult end(CUstream handle, CUgraph *graph)
{
    std::shared_ptr<Stream> s;
    if (CUresult rc = find_stream(handle, s)) return rc;
    if (!graph) return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard lock(graph_lock());
    *graph = nullptr;
    auto capture = s->captured.capture;
    if (!capture) return CUDA_ERROR_ILLEGAL_STATE;
    if (capture->origin != s.get()) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
        capture->thread != std::this_thread::get_id())
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    const CUresult rc = !capture->valid     ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                        : !joined(*capture) ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED
                                            : CUDA_SUCCESS;
    finish(capture);
    if (!rc)
        *graph = capture->graph->handle();
    else if (capture->owns_graph)
        withdraw(*capture->graph);
    return rc;
}

CUstreamCaptureStatus status_of(const Stream &s)
{
    if (!s.captured.capture) return CU_STREAM_CAPTURE_STATUS_NONE;
    return s.captured.capture->valid ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                     : CU_STREAM_CAPTURE_STATUS_INVALIDATED;
}

CUresult get_info_v3(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                     const CUgraphNode **after, const CUgraphEdgeData **edges, size_t *count)
{
    std::shared_ptr<Stream> s;
    if (CUresult rc = find_stream(handle, s)) return rc;
    if (!status) return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard lock(graph_lock());
    if (CUresult rc = may_look(*s)) return rc;
    *status = status_of(*s);
    if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
    CapturePlace &place = s->captured;
    place.listed.clear();
    for (const NodeRef &n : place.after)
        if (n->graph) place.listed.push_back(n->handle());
    if (id) *id = place.capture->id;
    if (graph) *graph = place.capture->graph->handle();
    if (after) *after = place.listed.data();
    if (edges) *edges = nullptr;  // all of them are full dependencies
    if (count) *count = place.listed.size();
    return CUDA_SUCCESS;
}

CUresult get_info_v2(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                     const CUgraphNode **after, size_t *count)
{
    return get_info_v3(stream, status, id, graph, after, nullptr, count);
}

CUresult get_info_v1(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id)
{
    return get_info_v3(stream, status, id, nullptr, nullptr, nullptr, nullptr);
}

CUresult is_capturing(CUstream stream, CUstreamCaptureStatus *status)
{
    return get_info_v3(stream, status, nullptr, nullptr, nullptr, nullptr, nullptr);
}

CUresult update(CUstream handle, CUgraphNode *after, size_t count, unsigned flags)
{
    std::shared_ptr<Stream> s;
    if (CUresult rc = find_stream(handle, s)) return rc;
    if (flags != CU_STREAM_ADD_CAPTURE_DEPENDENCIES && flags != CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard lock(graph_lock());
    CapturePlace &place = s->captured;
    if (!place.capture) return CUDA_ERROR_ILLEGAL_STATE;
    if (!place.capture->valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    std::vector<NodeRef> nodes;
    if (CUresult rc = find_nodes(*place.capture->graph, after, count, nodes)) return rc;
    if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) place.after.clear();
    add_place(place, nodes);
    return CUDA_SUCCESS;
}

CUresult update_v2(CUstream stream, CUgraphNode *after, const CUgraphEdgeData *, size_t count,
                   unsigned flags)
{
    return update(stream, after, count, flags);
}

CUresult exchange_mode(CUstreamCaptureMode *mode)
{
    if (!mode || !known(*mode)) return CUDA_ERROR_INVALID_VALUE;
    std::swap(*mode, thread_capture_mode());
    return CUDA_SUCCESS;
}

RGPU_EXPORT_PTSZ(cuStreamBeginCapture, begin_v1)
RGPU_EXPORT_PTSZ(cuStreamBeginCapture_v2, begin_v2)
RGPU_EXPORT_PTSZ(cuStreamBeginCaptureToGraph, begin_to_graph)
RGPU_EXPORT_PTSZ(cuStreamEndCapture, end)
RGPU_EXPORT_PTSZ(cuStreamIsCapturing, is_capturing)
RGPU_EXPORT_PTSZ(cuStreamGetCaptureInfo, get_info_v1)
RGPU_EXPORT_PTSZ(cuStreamGetCaptureInfo_v2, get_info_v2)
RGPU_EXPORT_PTSZ(cuStreamGetCaptureInfo_v3, get_info_v3)
RGPU_EXPORT_PTSZ(cuStreamUpdateCaptureDependencies, update)
RGPU_EXPORT_PTSZ(cuStreamUpdateCaptureDependencies_v2, update_v2)
RGPU_EXPORT(cuThreadExchangeStreamCaptureMode, exchange_mode)

}  // namespace

}  // namespace rgpu::softgpu::driver
