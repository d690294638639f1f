// The state of the driver in one process. Made at the first call and never destroyed: cudart calls
// us after static destructors have run.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "calls/cuda_api.h"
#include "softgpu/driver/base/arena.h"
#include "softgpu/driver/base/gpu_host.h"
#include "softgpu/driver/base/handles.h"
#include "softgpu/driver/base/ranges.h"
#include "softgpu/driver/base/scheduler.h"
#include "softgpu/driver/base/settings.h"

namespace rgpu::softgpu::driver {

constexpr int kDriverVersion = 13000;

class Array;
class Context;
class Event;
class Function;
class Graph;
class GraphExec;
class GraphNode;
class Library;
class LibraryKernel;
class Link;
class Module;
class Pool;
class Stream;
class UserObject;

// A device as this process sees it.
class Device final : public Arena::Account {
public:
    Device(GpuHost &, const Settings &, int index, int host_index, CUuuid);

    const int index;       // CUdevice
    const int host_index;  // among the host's
    const CUuuid uuid;
    const std::string name;
    const uint64_t total;
    Arena arena;
    Context *const primary;
    const std::shared_ptr<Pool> default_pool;
    struct {
        std::atomic<uint64_t> now = 0, high = 0;
    } graph_memory;  // bytes that nodes of graphs have

    uint64_t used() { return host_.used(host_index); }
    uint64_t held_here() const { return host_.held(host_index); }
    bool take(uint64_t bytes) override { return host_.take(host_index, bytes, total); }
    void give(uint64_t bytes) override { host_.give(host_index, bytes); }

    // What a program chose with cuDeviceSetMemPool.
    std::shared_ptr<Pool> pool();
    void set_pool(std::shared_ptr<Pool>);

private:
    GpuHost &host_;
    std::mutex mutex_;
    std::shared_ptr<Pool> pool_;
};

struct Driver {
    Settings settings;
    std::unique_ptr<GpuHost> host;
    std::vector<Device *> devices;
    Ranges ranges;
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
};

Driver &driver();
CUresult initialise();

// Null when there is no such device.
inline Device *find_device(CUdevice d)
{
    Driver &all = driver();
    return d >= 0 && static_cast<size_t>(d) < all.devices.size() ? all.devices[d] : nullptr;
}

// Of the device with this index on the host in this directory: the same at every start.
CUuuid make_uuid(const std::string &directory, int host_index);

}  // namespace rgpu::softgpu::driver
