// SPDX-License-Identifier: Apache-2.0
#include "softgpu/driver/graph/capture.h"

#include "softgpu/driver/graph/capture_state.h"
#include "softgpu/driver/graph/graph_exec.h"
#include "softgpu/driver/graph/node_work.h"
#include "softgpu/driver/state/context.h"
#include "softgpu/driver/state/driver.h"
#include "softgpu/driver/state/event.h"
#include "softgpu/driver/state/stream.h"

namespace rgpu::softgpu::driver {

namespace {

CUresult spoil(Capture &capture, CUresult rc)
{
    if (!capture.valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    capture.valid = false;
    return rc;
}

// Under the lock.
CUresult add_node(Stream &stream, WorkRef work)
{
    CapturePlace &place = stream.captured;
    Capture &capture = *place.capture;
    if (!capture.valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    std::vector<GraphNode *> after;
    for (const NodeRef &n : place.after)
        if (n->graph) after.push_back(n.get());  // else the program destroyed it
    NodeRef made;
    if (CUresult rc = capture.graph->add(std::move(work), after, made)) return spoil(capture, rc);
    place.after = {made};
    return CUDA_SUCCESS;
}

CUresult implicit(Context &context)
{
    CUresult rc = CUDA_SUCCESS;
    for (const auto &capture : active_captures())
        for (const auto &weak : capture->streams)
            if (auto s = weak.lock(); s && &s->context == &context && s->blocking()) {
                capture->valid = false;
                rc = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
            }
    return rc;
}

}  // namespace

// --- what calls ask

CUresult capture_work(Stream &stream, WorkRef work)
{
    std::lock_guard lock(graph_lock());
    return stream.captured.capture ? add_node(stream, std::move(work)) : CUDA_ERROR_ILLEGAL_STATE;
}

CUresult capture_graph(Stream &stream, CUgraphExec handle, bool &captured)
{
    captured = false;
    if (!stream.capturing) return may_work(stream);
    std::lock_guard lock(graph_lock());
    auto exec = driver().graph_execs.find(handle);
    if (!exec) return CUDA_ERROR_INVALID_VALUE;
    if (!stream.captured.capture) return CUDA_ERROR_ILLEGAL_STATE;
    captured = true;
    auto inner = exec->to_graph();
    if (!inner) return CUDA_ERROR_NOT_SUPPORTED;
    inner->is_child = true;
    CUresult rc = add_node(stream, std::make_shared<const Work>(ChildWork{inner}));
    if (!rc) publish(inner);
    return rc;
}

CUresult capture_record(Stream &stream, CUevent handle, Event &event, unsigned flags)
{
    std::lock_guard lock(graph_lock());
    CapturePlace &place = stream.captured;
    if (!place.capture) return CUDA_ERROR_ILLEGAL_STATE;
    if (!place.capture->valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (flags & CU_EVENT_RECORD_EXTERNAL) {
        WorkRef work;
        if (CUresult rc = make_record(handle, work)) return rc;
        return add_node(stream, std::move(work));
    }
    event.captured = {place.capture, place.after, {}};
    return CUDA_SUCCESS;
}

CUresult capture_wait(const std::shared_ptr<Stream> &stream, CUevent handle, Event &event,
                      unsigned flags, bool &captured)
{
    captured = false;
    std::lock_guard lock(graph_lock());
    CapturePlace &here = stream->captured, &there = event.captured;
    if (!here.capture && !there.capture) return CUDA_SUCCESS;
    captured = true;
    if (flags & CU_EVENT_WAIT_EXTERNAL) {
        if (!here.capture) return CUDA_ERROR_INVALID_VALUE;
        WorkRef work;
        if (CUresult rc = make_wait(handle, work)) return rc;
        return add_node(*stream, std::move(work));
    }
    if (!there.capture) return spoil(*here.capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    if (there.capture->ended) {
        const CUresult rc = CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
        return here.capture ? spoil(*here.capture, rc) : CUDA_ERROR_CAPTURED_EVENT;
    }
    if (!there.capture->valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (here.capture && here.capture != there.capture) {
        spoil(*there.capture, CUDA_SUCCESS);
        return spoil(*here.capture, CUDA_ERROR_STREAM_CAPTURE_MERGE);
    }
    if (stream->kind == Stream::Kind::legacy)
        return spoil(*there.capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    if (!here.capture) join(stream, there.capture);
    add_place(here, there.after);
    return CUDA_SUCCESS;
}

CUresult may_work(Stream &stream)
{
    if (!capturing()) return CUDA_SUCCESS;
    std::lock_guard lock(graph_lock());
    if (stream.captured.capture)
        return spoil(*stream.captured.capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return stream.kind == Stream::Kind::legacy ? implicit(stream.context) : CUDA_SUCCESS;
}

CUresult may_call_unsafe()
{
    if (!capturing() || thread_capture_mode() == CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_SUCCESS;
    std::lock_guard lock(graph_lock());
    CUresult rc = CUDA_SUCCESS;
    for (const auto &capture : active_captures()) {
        const bool mine = capture->thread == std::this_thread::get_id();
        const bool forbids = mine ? capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED
                                  : capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                                        thread_capture_mode() == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (!forbids) continue;
        capture->valid = false;
        rc = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return rc;
}

CUresult may_ask(Event &event)
{
    std::lock_guard lock(graph_lock());
    if (!event.captured.capture) return CUDA_SUCCESS;
    if (!event.captured.capture->ended) event.captured.capture->valid = false;
    return CUDA_ERROR_CAPTURED_EVENT;
}

// --- ends

void forget_capture(Event &event)
{
    std::lock_guard lock(graph_lock());
    event.captured = {};
}

void forget_capture(Stream &stream)
{
    if (!stream.capturing) return;
    std::lock_guard lock(graph_lock());
    auto capture = stream.captured.capture;
    if (!capture) return;
    if (capture->origin == &stream) {
        if (capture->owns_graph) withdraw(*capture->graph);
        finish(capture);
        return;
    }
    capture->left.insert(capture->left.end(), stream.captured.after.begin(),
                         stream.captured.after.end());
    stream.captured = {};
    stream.capturing = false;
}

void forget_captures(Context &context)
{
    std::lock_guard lock(graph_lock());
    const auto all = active_captures();
    for (const auto &capture : all)
        if (&capture->origin->context == &context) {
            if (capture->owns_graph) withdraw(*capture->graph);
            finish(capture);
        }
}

}  // namespace rgpu::softgpu::driver
