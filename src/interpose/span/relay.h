// SPDX-License-Identifier: Apache-2.0
// Copies and waits between GPUs of different servers, where one lease spans several: through this
// process, in stream order. Likewise copies of one server whose bytes in the program's memory are
// not what they will be when the stream gets there.
//
// A stream that such an operation is for stands at a host function of ours until the operation is
// over; no thread of the program waits. What must wait for it anyway, a synchronous copy or one
// with pageable memory, is carried out at once by the calling thread. Bytes come here in pieces and
// go on from here.
#pragma once

#include <atomic>
#include <functional>

#include "interpose/mirror/addresses.h"
#include "interpose/state/servers.h"
#include "interpose/stream/copies.h"

namespace rgpu::interpose::relay {

// Whether this address is another server's memory than calls go to.
inline bool is_elsewhere(CUdeviceptr address)
{
    if (!spanning()) return false;
    const auto owner = owner_of_address(address);
    return owner && owner->server != here();
}
// Whether a side of the copy is.
bool is_elsewhere(const CUDA_MEMCPY3D &);

// Copies with a side elsewhere; the stream is one of the server that calls go to.
CUresult copy(const CUDA_MEMCPY3D &, CUstream, CopyWait);
// Bytes in a row; either side may be the program's memory.
CUresult copy(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream, CopyWait);
CUresult copy(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
              size_t bytes, CUstream, CopyWait);

// A change of so many bytes of memory that is elsewhere: `change` gets a stream there, in which it
// may leave work.
CUresult change(CUdeviceptr memory, size_t bytes, CUstream,
                std::function<CUresult(CUstream)> change);

// The error of a copy or change that has failed since it was given to the stream (a default one: to
// any of the current context), or to any stream of the context: their synchronisations and queries
// answer it, until the stream is destroyed.
CUresult error_of_stream(HandleId stream);
CUresult error_of_context(HandleId context);
inline bool any_failed() { return client_counter(Counter::any_failed_stream) != 0; }
inline CUresult failed_in_stream(HandleId stream)
{
    return any_failed() ? error_of_stream(stream) : CUDA_SUCCESS;
}
inline CUresult failed_in_context(HandleId context)
{
    return any_failed() ? error_of_context(context) : CUDA_SUCCESS;
}

// Whether copies to the program's memory are under way here; and whether this thread carries a copy
// out, whose time has come.
bool any_to_host();
bool is_carrying();

// Returns when no copy or change is under way: memory that it may use is about to go.
void settle();

// Says, once, that a graph cannot hold work of two servers. NOT_SUPPORTED.
CUresult not_in_graph();

// Says, once, that the graph, which is elsewhere, cannot be launched here. NOT_SUPPORTED.
CUresult graph_is_elsewhere(HandleId exec);

// NOT_SUPPORTED, and a line, for what a stream cannot do with another server's memory.
CUresult must_be_here(CUdeviceptr);

// The stream waits for another server's event, as it was recorded last.
CUresult wait_event(CUstream, CUevent);

}  // namespace rgpu::interpose::relay
