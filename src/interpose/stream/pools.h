// SPDX-License-Identifier: Apache-2.0
// Stream-ordered memory that is divided up here, so that an allocation and its free send nothing
// (doc/addresses.md, "Stream-ordered memory").
//
// A pool of device memory gets whole pages from the server (state/placed_memory.h). The pools are
// those that no other process can be given. Which memory a stream may have again, and when, is
// state/pool_memory.h; what is known of streams' progress is state/stream_order.h.
//
// Any thread. Nobody holds a lock of placed_memory's.
//
// Memory of the process: what throws std::bad_alloc has done nothing, and the call is not to be
// made, or not to succeed. What follows a call that was made does not throw: it notes less.
#pragma once

#include <cstddef>
#include <optional>

#include "calls/cuda_api.h"
#include "interpose/state/handles.h"
#include "interpose/state/stream_order.h"

namespace rgpu::interpose::pools {

// Memory for a stream, from a pool or (none) the present one of the stream's device. Nothing where
// the driver is to give it: the pool is one that others can be given, the server does not know
// this, the stream is captured, or the calling thread's calls wait.
std::optional<CUresult> allocate(CUdeviceptr *out, size_t bytes, std::optional<CUmemoryPool>,
                                 CUstream);
// Frees what allocate() gave, in a stream; nothing where it is no such memory.
std::optional<CUresult> free_behind(CUdeviceptr base, CUstream);
// The same for everyone, when the current context's work so far is over.
std::optional<CUresult> free(CUdeviceptr base);

// --- what the program does with pools. These calls have succeeded.

void created(CUmemoryPool, const CUmemPoolProps &);
void destroyed(HandleId pool);
// (These two may throw: to call them again is the same.)
void is_default(CUmemoryPool, CUdevice);
void is_present(CUmemoryPool, CUdevice);
// The first before the call.
void expect_device(CUdevice);
void set_present(CUmemoryPool, CUdevice);
void note_attribute(CUmemoryPool, CUmemPool_attribute, uint64_t value);
// A count of memory that is divided up here; nothing for what is no count, or another pool's.
// `alone`: the driver has given none from this pool.
std::optional<uint64_t> attribute(CUmemoryPool, CUmemPool_attribute, bool &alone);
// Gives back what nothing uses, down to so many bytes. Whether the pool is one of these, and the
// driver has given nothing from it.
bool trim(CUmemoryPool, size_t keep);

// --- what the program does with streams

// Made before a wait or a query: what is over when that says that it is reached.
class Progress {
public:
    static Progress of_stream(HandleId);
    static Progress of_event(HandleId);
    static Progress of_context(HandleId);
    void reached();

private:
    HandleId event_ = 0;
    StreamOrder::Seen seen_;
};

// The event is about to be recorded, or was not, after all.
void records(HandleId event, HandleId stream);
void records_nothing(HandleId event);
// Around a wait for an event: the stream's next work comes behind it.
class StreamWait {
public:
    StreamWait(CUstream, CUevent);
    void sent();

private:
    HandleId stream_ = 0, event_ = 0;
    StreamOrder::Seen seen_;
};
// It is about to be destroyed.
void stream_ends(CUstream);
// A context has ended: what was allocated in it is free. Or it is about to: waits for its work
// first.
void forget_context(HandleId) noexcept;
void context_ends(HandleId);

}  // namespace rgpu::interpose::pools
