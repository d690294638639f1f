// SPDX-License-Identifier: Apache-2.0
// Bodies of calls that have a handler of their own on both sides, or that several places read: the
// layout of each, written and read here only. What follows a head, and what it means, is said where
// the call is made.
//
// Plain values, which own nothing. Reading checks no value but the lengths: as with every Reader,
// what is missing reads as 0, and ok() or at_end() says so.
#pragma once

#include <cstdint>

#include "calls/handles.h"
#include "wire/codec.h"

namespace rgpu::wire {

// Of a launch, and of what is asked about one or kept for one in a graph. `From` has the driver's
// names: CUlaunchConfig, and every CUDA_KERNEL_NODE_PARAMS.
struct LaunchGrid {
    uint32_t grid[3], block[3], dynamic_shared;

    template <class From> static LaunchGrid of(const From &p)
    {
        return {{p.gridDimX, p.gridDimY, p.gridDimZ},
                {p.blockDimX, p.blockDimY, p.blockDimZ},
                p.sharedMemBytes};
    }
    template <class To> void put_into(To &p) const
    {
        p.gridDimX = grid[0], p.gridDimY = grid[1], p.gridDimZ = grid[2];
        p.blockDimX = block[0], p.blockDimY = block[1], p.blockDimZ = block[2];
        p.sharedMemBytes = dynamic_shared;
    }
};

// cuLaunchKernel. Behind it: the attributes (CUlaunchAttribute, events as their numbers), then the
// parameters' block, its u32 length in front.
struct LaunchHead {
    calls::HandleId function;
    LaunchGrid shape;
    calls::HandleId stream;
    uint32_t cooperative, attributes;
};

// A launch that is only asked about. Behind it: u64 count of attributes, the attributes.
struct AskedLaunchHead {
    LaunchGrid shape;
    calls::HandleId stream;
};

// A kernel node's parameters. Behind it: the parameters' block, its u32 length in front.
struct KernelNodeHead {
    calls::HandleId function, kernel, context;
    LaunchGrid shape;
};

// What is copied between host and device: the whole body of a copy to the host. Behind that of a
// copy to the device come its bytes.
struct CopyTarget {
    CUdeviceptr device = 0;
    uint64_t bytes = 0;
    calls::HandleId stream = 0;

    static constexpr size_t kBytes = sizeof(CUdeviceptr) + sizeof(uint64_t) +
                                     sizeof(calls::HandleId);

    void write(Writer &w) const { w.value(device), w.value(bytes), w.value(stream); }
    static CopyTarget read(Reader &r)
    {
        CopyTarget t;
        t.device = r.value<CUdeviceptr>(), t.bytes = r.value<uint64_t>();
        t.stream = r.value<calls::HandleId>();
        return t;
    }
};

// What cuLaunchHostFunc says of a host function: put it into a stream, the client has run it, or
// put it into a stream that is being captured, where the token is a graph's.
enum class HostFunctionStep : uint32_t { enqueue, done, capture };

// The body of cuLaunchHostFunc. A function that is done names no stream.
struct HostFunction {
    HostFunctionStep step = HostFunctionStep::enqueue;
    calls::HandleId stream = 0;
    uint64_t token = 0;

    void write(Writer &w) const
    {
        w.value(step);
        if (step != HostFunctionStep::done) w.value(stream);
        w.value(token);
    }
    // A step that does not exist is read as it is.
    static HostFunction read(Reader &r)
    {
        HostFunction f;
        f.step = r.value<HostFunctionStep>();
        if (f.step != HostFunctionStep::done) f.stream = r.value<calls::HandleId>();
        f.token = r.value<uint64_t>();
        return f;
    }
};

}  // namespace rgpu::wire
