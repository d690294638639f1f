// SPDX-License-Identifier: Apache-2.0
// Stream capture: work given to a stream becomes nodes of a graph instead of being done.
//
// A capture begins in one stream, its origin; others join it by waiting for events recorded in it,
// and must be joined again, by an event that the origin waits for, before it ends.
//
// Any thread: these take graph_lock(), but for a look at one atomic where nothing is captured.
// Errors are CUDA's for the call that asks.
#pragma once

#include <memory>

#include "calls/cuda_api.h"
#include "softgpu/driver/graph/graph_work.h"

namespace rgpu::softgpu::driver {

class Context;
class Event;
class Stream;

// Adds the node; the stream is being captured. On failure the capture is invalid.
CUresult capture_work(Stream &, WorkRef);
// A launch of the graph, if the stream is being captured.
CUresult capture_graph(Stream &, CUgraphExec, bool &captured);
CUresult capture_record(Stream &, CUevent, Event &, unsigned flags);
// When the stream or the event belongs to a capture, `captured` is set and all is done.
CUresult capture_wait(const std::shared_ptr<Stream> &, CUevent, Event &, unsigned flags,
                      bool &captured);

// Before work that is not captured. In a captured stream that invalidates the capture, and so does
// the legacy default stream when a blocking stream of its context is being captured.
CUresult may_work(Stream &);
// Before a call that CUDA calls potentially unsafe: fails while a capture forbids it to this
// thread.
CUresult may_call_unsafe();
// Whether the event may be asked about: CUDA_ERROR_CAPTURED_EVENT.
CUresult may_ask(Event &);
// The event is recorded anew, outside of captures.
void forget_capture(Event &);
// The stream, or all of the context, ends.
void forget_capture(Stream &);
void forget_captures(Context &);

}  // namespace rgpu::softgpu::driver
