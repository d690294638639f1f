// Which streams are being captured, as far as the client must know: the copies and host functions
// that go into a graph take another way than others, and CUDA forbids some calls while a capture
// goes on.
//
// The server captures in relaxed mode, because all of a program's threads are one thread there; the
// modes hold here.
#pragma once

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

// Before a call that CUDA calls potentially unsafe: an error while a capture forbids it to this
// thread, and that capture is then invalid (CUDA Driver API, cuThreadExchangeStreamCaptureMode).
CUresult may_call_unsafe();

// The calls for which that holds. (cuStreamSynchronize and others are refused by the server's
// driver.)
consteval bool is_unsafe_in_capture(calls::CallId id)
{
    using enum calls::CallId;
    for (calls::CallId unsafe :
         {cuMemAlloc_v2, cuMemAllocPitch_v2, cuMemFree_v2, cuMemAllocHost_v2, cuMemHostAlloc,
          cuMemFreeHost, cuMemAllocManaged, cuCtxSynchronize, cuEventQuery})
        if (id == unsafe) return true;
    return false;
}

}  // namespace rgpu::interpose
