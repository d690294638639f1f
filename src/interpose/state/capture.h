// SPDX-License-Identifier: Apache-2.0
// Which streams are being captured, as far as the client must know: the copies and host functions
// that go into a graph take another way than others, and CUDA forbids some calls while a capture
// goes on.
//
// The server captures in relaxed mode, because all of a program's threads are one thread there; the
// modes hold here.
#pragma once

#include <memory>
#include <optional>

#include "calls/calls.h"
#include "interpose/state/handles.h"

namespace rgpu::interpose {

// Whether this stream (its number) is being captured. One load when nothing is.
bool is_captured(HandleId stream);

// Whether any stream is.
bool any_capture();

// Whether work may be given to the stream: CUDA_ERROR_STREAM_CAPTURE_INVALIDATED when its capture
// has failed.
CUresult may_give_work(HandleId stream);
// A call about the stream gave `result`: some of them make its capture invalid.
void note_capture_result(HandleId stream, CUresult result);

// Before a call whose line says unsafe_in_capture: an error while a capture forbids it to this
// thread, and that capture is then invalid (CUDA Driver API, cuThreadExchangeStreamCaptureMode).
CUresult may_call_unsafe();

// --- for the calls that begin, join and end captures (api/capture.cc). Streams and events are
// numbers.

// A capture that is about to begin. What notes it is made before the server begins it, as a capture
// that only the server knew would never end.
class NewCapture {
public:
    NewCapture(HandleId origin, CUstreamCaptureMode mode);
    ~NewCapture();
    NewCapture(const NewCapture &) = delete;
    NewCapture &operator=(const NewCapture &) = delete;
    // It has begun. Throws nothing.
    void begun();

private:
    struct Noted;
    std::unique_ptr<Noted> noted_;
};

// Whether the stream's capture goes on and has failed.
bool is_invalid_capture(HandleId stream);
// What cuStreamEndCapture must know of a stream's capture, if the stream is its origin.
struct EndingCapture {
    bool wrong_thread = false, invalid = false;
};
std::optional<EndingCapture> ending_capture(HandleId origin);
// The capture with this origin is over.
void end_capture(HandleId origin);
// The stream is destroyed, and takes its capture along.
void forget_captured_stream(HandleId stream);

// The event now stands for the stream's work so far: for that of a capture, or no longer.
void note_captured_record(HandleId event, HandleId stream);
// The stream waits for the event, and joins its capture. CUDA_ERROR_STREAM_CAPTURE_MERGE or
// _ISOLATION where it may not: the stream's own capture is then invalid.
CUresult join_capture(HandleId stream, HandleId event);
// Whether an event stands for a capture's work, which is invalid from now on.
bool invalidate_capture_of(HandleId event);

// The mode of the calling thread's potentially unsafe calls; gives the one before.
CUstreamCaptureMode exchange_capture_mode(CUstreamCaptureMode mode);

}  // namespace rgpu::interpose
