// SPDX-License-Identifier: Apache-2.0
// CUDA graphs: work described once, as nodes with dependencies, to be made executable
// (graph_exec.h).
//
// CUDA leaves it to the program that a graph is used by one thread at a time; here one lock, taken
// by the calls, guards all graphs and captures, so that a mistake does no more than confuse.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "calls/cuda_api.h"
#include "softgpu/driver/graph/graph_work.h"

namespace rgpu::softgpu::driver {

std::mutex &graph_lock();

class UserObject;

class GraphNode {
public:
    GraphNode(Graph *g, uint64_t origin, WorkRef);

    const uint64_t id;      // never used twice
    const uint64_t origin;  // id of the node that this is a clone of; 0
    Graph *graph;           // null once it was destroyed
    WorkRef work;
    // What it had before, as far as the program was shown it: kernelParams lie in it, and programs
    // use them after they have set others.
    std::vector<WorkRef> shown;
    std::vector<GraphNode *> after,
        before;  // dependencies, dependents: in the order they were given

    CUgraphNode handle() { return reinterpret_cast<CUgraphNode>(this); }
};
using NodeRef = std::shared_ptr<GraphNode>;

// All under graph_lock().
class Graph : public std::enable_shared_from_this<Graph> {
public:
    ~Graph();

    // In the order of creation.
    const std::vector<NodeRef> &nodes() const { return nodes_; }
    // Makes it known by its handle. INVALID_VALUE when `after` is not of this graph, or names a
    // node twice.
    CUresult add(WorkRef, const std::vector<GraphNode *> &after, NodeRef &, uint64_t origin = 0);
    void remove(GraphNode &);
    // INVALID_VALUE when a node is not of this graph, or the edge is there already (or not there).
    CUresult connect(GraphNode &from, GraphNode &to);
    CUresult disconnect(GraphNode &from, GraphNode &to);
    std::shared_ptr<Graph> clone() const;
    // CUDA: such a graph is neither cloned nor part of another.
    bool has_conditional() const;
    // Of its conditions: whether one is of no node.
    bool has_unused_condition() const;
    // Every node behind those it depends on, else in the order of creation. Shorter than nodes()
    // when there is a cycle.
    std::vector<GraphNode *> sorted() const;

    bool is_child = false;  // of a node, which owns it
    std::multiset<std::shared_ptr<UserObject>> user_objects;
    std::vector<std::shared_ptr<Condition>> conditions;  // created for it

    CUgraph handle() { return reinterpret_cast<CUgraph>(this); }

private:
    std::vector<NodeRef> nodes_;
};

// Adds a node to the graph that a call names, under the lock.
CUresult add_graph_node(CUgraphNode *, CUgraph, const CUgraphNode *after, size_t count, WorkRef);
// Makes a graph and those inside it known or unknown by their handles.
void publish(const std::shared_ptr<Graph> &);
void withdraw(Graph &);

// A resource of the program that graphs keep. `destroy` is called when nobody holds it any more.
class UserObject {
public:
    UserObject(CUhostFn destroy, void *data) : destroy_(destroy), data_(data) {}
    ~UserObject() { destroy_(data_); }
    CUuserObject handle() { return reinterpret_cast<CUuserObject>(this); }
    unsigned references = 0;  // the program's own; while there are any the handle is known

private:
    CUhostFn destroy_;
    void *data_;
};

}  // namespace rgpu::softgpu::driver
