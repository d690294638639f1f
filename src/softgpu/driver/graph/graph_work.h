// What the nodes of a graph do, and the CUDA structures that describe it.
#pragma once

#include <memory>
#include <variant>
#include <vector>

#include "calls/cuda_api.h"
#include "softgpu/driver/state/copy.h"
#include "softgpu/driver/state/launch.h"

namespace rgpu::softgpu::driver {

class Context;
class Event;
class Graph;
class GraphMemory;

struct KernelWork {
    KernelLaunch launch;
    std::weak_ptr<Module> module;   // unloaded since: the node cannot run
    CUfunction function = nullptr;  // as the program named it; null when it named the CUkernel
    std::vector<void *> arguments;  // into launch.parameters
    int priority = 0;
};
struct CopyWork {
    Context *context = nullptr;
    CUDA_MEMCPY3D parameters{};
    Copy copy;
};
struct FillWork {
    Context *context = nullptr;
    CUDA_MEMSET_NODE_PARAMS parameters{};
};
struct HostWork {
    CUDA_HOST_NODE_PARAMS parameters{};
};
struct ChildWork {
    std::shared_ptr<Graph> graph;
};
struct EmptyWork {};
struct WaitWork {
    std::shared_ptr<Event> event;
};
struct RecordWork {
    std::shared_ptr<Event> event;
};

struct SignalWork {};  // external semaphores: there are none
struct ExternalWaitWork {};
struct AllocWork {
    std::shared_ptr<GraphMemory> memory;
    CUDA_MEM_ALLOC_NODE_PARAMS parameters{};
};
struct FreeWork {
    std::shared_ptr<GraphMemory> memory;
};

// In the order of CUgraphNodeType. Never changed once made: launches that are under way share it.
using Work = std::variant<KernelWork, CopyWork, FillWork, HostWork, ChildWork, EmptyWork, WaitWork,
                          RecordWork, SignalWork, ExternalWaitWork, AllocWork, FreeWork>;
using WorkRef = std::shared_ptr<const Work>;

inline CUgraphNodeType type_of(const Work &w) { return static_cast<CUgraphNodeType>(w.index()); }

// Each checks as the call would that does the same in a stream.
CUresult make_work(const CUDA_KERNEL_NODE_PARAMS_v1 *, WorkRef &);
CUresult make_work(const CUDA_KERNEL_NODE_PARAMS_v2 *, WorkRef &);
CUresult make_work(const CUDA_MEMCPY3D *, CUcontext, WorkRef &);
CUresult make_work(const CUDA_MEMSET_NODE_PARAMS *, CUcontext, WorkRef &);
CUresult make_work(const CUDA_HOST_NODE_PARAMS *, WorkRef &);
CUresult make_wait(CUevent, WorkRef &);
CUresult make_record(CUevent, WorkRef &);
CUresult make_alloc(const CUDA_MEM_ALLOC_NODE_PARAMS *, WorkRef &);
CUresult make_free(CUdeviceptr, WorkRef &);
// Of any type that a CUgraphNodeParams can describe; NOT_SUPPORTED for the others.
CUresult make_work(const CUgraphNodeParams *, WorkRef &);
// For what was found in a stream that is being captured.
WorkRef kernel_work(KernelLaunch, CUfunction as_named);
WorkRef copy_work(Context &, const Copy &);
WorkRef fill_work(Context &, const Fill &);

// The same work with other kernel attributes.
CUresult set_attribute(const KernelWork &, CUlaunchAttributeID, const CUlaunchAttributeValue &,
                       WorkRef &);
CUresult get_attribute(const KernelWork &, CUlaunchAttributeID, CUlaunchAttributeValue &);

void describe(const KernelWork &, CUDA_KERNEL_NODE_PARAMS_v1 &);
void describe(const KernelWork &, CUDA_KERNEL_NODE_PARAMS_v2 &);

// Whether a node may be given this work in place of what it has.
bool may_replace(const Work &old, const Work &now);
// Whether it can be launched now.
CUresult runnable(const Work &);
// What the node does, on the calling thread; `fallback` gets the error of what has no context of
// its own.
void perform(const Work &, Context &fallback);

}  // namespace rgpu::softgpu::driver
