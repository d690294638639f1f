// SPDX-License-Identifier: Apache-2.0
// What the nodes of a graph do. Work is made by node_work.h, never changes once made, and is shared
// by nodes, executable graphs and launches under way. Any thread.
#pragma once

#include <memory>
#include <variant>
#include <vector>

#include "calls/cuda_api.h"
#include "softgpu/driver/state/copy.h"
#include "softgpu/driver/state/launch.h"

namespace rgpu::softgpu::driver {

class Condition;
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

struct MemoryOpWork {
    Context *context = nullptr;
    std::vector<CUstreamBatchMemOpParams> operations;
};

struct Body;

// One of its graphs, none, or one again and again, as the condition's value says.
struct ConditionalWork {
    std::shared_ptr<Condition> condition;
    CUgraphConditionalNodeType type{};
    std::vector<std::shared_ptr<Graph>> graphs;
    std::vector<CUgraph> handles;               // of these: what the program is shown
    std::vector<std::shared_ptr<Body>> bodies;  // the same made executable; of GraphExec's only
};

// In the order of CUgraphNodeType.
using Work = std::variant<KernelWork, CopyWork, FillWork, HostWork, ChildWork, EmptyWork, WaitWork,
                          RecordWork, SignalWork, ExternalWaitWork, AllocWork, FreeWork,
                          MemoryOpWork, ConditionalWork>;
using WorkRef = std::shared_ptr<const Work>;

// What a conditional node runs: work in an order that its dependencies allow, and the conditions
// that start with it.
struct Body {
    std::vector<WorkRef> steps;
    std::vector<std::shared_ptr<Condition>> conditions;
};

inline CUgraphNodeType type_of(const Work &w) { return static_cast<CUgraphNodeType>(w.index()); }
// The graphs that the work has of its own, which end with its node.
std::vector<std::shared_ptr<Graph>> graphs_in(const Work &);

Fill fill_of(const CUDA_MEMSET_NODE_PARAMS &);

// Whether a node may be given this work in place of what it has.
bool may_replace(const Work &old, const Work &now);
// Whether it can be launched now.
CUresult runnable(const Work &);
// What the node does, on the calling thread, unless its context has failed. `fallback` is the
// context of what names none.
void perform(const Work &, Context &fallback);

}  // namespace rgpu::softgpu::driver
