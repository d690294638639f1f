// SPDX-License-Identifier: Apache-2.0
// The state of the driver in one process: its devices, and every object that a program has a handle
// of. Made at the first call and never destroyed: cudart calls us after static destructors have
// run.
//
// This file knows the objects' names only, so that all of them can be built upon it. Any thread:
// tables have their own locks, the rest is written by cuInit alone.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "calls/advice.h"
#include "calls/cuda_api.h"
#include "softgpu/driver/base/gpu_host.h"
#include "softgpu/driver/base/handles.h"
#include "softgpu/driver/base/outside.h"
#include "softgpu/driver/base/ranges.h"
#include "softgpu/driver/base/scheduler.h"
#include "softgpu/driver/base/settings.h"
#include "softgpu/driver/state/device.h"

namespace rgpu::softgpu::driver {

constexpr int kDriverVersion = 13000;

class Array;
class Event;
class Function;
class Graph;
class GraphExec;
class GraphNode;
class Library;
class LibraryKernel;
class Link;
class Module;
class Stream;
class UserObject;

struct Driver {
    Settings settings;
    std::unique_ptr<GpuHost> host;
    std::vector<Device *> devices;
    Ranges ranges;
    OutsideAddresses outside;
    calls::Advices advices;
    Scheduler scheduler;
    Handles<Stream, CUstream> streams;
    Handles<Event, CUevent> events;
    Handles<Module, CUmodule> modules;
    Handles<Function, CUfunction> functions;
    Handles<Library, CUlibrary> libraries;
    Handles<LibraryKernel, CUkernel> kernels;
    Handles<Link, CUlinkState> links;
    Handles<Pool, CUmemoryPool> pools;
    Handles<Array, CUarray> arrays;
    Handles<Graph, CUgraph> graphs;
    Handles<GraphNode, CUgraphNode> graph_nodes;
    Handles<GraphExec, CUgraphExec> graph_execs;
    Handles<UserObject, CUuserObject> user_objects;

    const Addresses &addresses() const
    {
        return settings.low_addresses ? kLowAddresses : kAddresses;
    }
    // Whether only device memory may lie there.
    bool is_window(uint64_t address) const
    {
        return addresses().contains(address) || outside.contains(address);
    }
};

// Made at the first call.
Driver &driver();

// Null when there is no such device.
inline Device *find_device(CUdevice d)
{
    Driver &all = driver();
    return d >= 0 && static_cast<size_t>(d) < all.devices.size() ? all.devices[d] : nullptr;
}

inline Device *device_named(const CUuuid &uuid)
{
    for (Device *device : driver().devices)
        if (!memcmp(&uuid, &device->uuid, sizeof uuid)) return device;
    return nullptr;
}

}  // namespace rgpu::softgpu::driver
