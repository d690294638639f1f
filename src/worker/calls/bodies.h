// How bodies begin that more than one place here reads: the halves of interpose/api/copy.cc and
// interpose/api/launch.cc.
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

}  // namespace rgpu::worker
