// How bodies begin that more than one place here reads: the halves of interpose/api/copy.cc,
// interpose/api/launch.cc and interpose/stream/callback.cc.
#pragma once

#include "calls/cuda_api.h"
#include "calls/handles.h"
#include "wire/codec.h"

namespace rgpu::worker {

// Of a copy between host and device.
struct CopyTarget {
    explicit CopyTarget(wire::Reader &r)
        : device(r.value<CUdeviceptr>()), bytes(r.value<uint64_t>()),
          stream(r.value<calls::HandleId>())
    {}

    CUdeviceptr device;
    uint64_t bytes;
    calls::HandleId stream;
};

struct LaunchHead {
    uint32_t function, grid[3], block[3], shared, stream, cooperative, attributes;
};

// What a host function's call says: put it into a stream, the client has run it, or put it into a
// stream that is being captured.
enum class HostFunctionStep : uint32_t { enqueue, done, capture };

}  // namespace rgpu::worker
