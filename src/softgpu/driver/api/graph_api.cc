// SPDX-License-Identifier: Apache-2.0
// Graphs and their structure: CUDA Driver API, "Graph Management".
#include <climits>
#include <cstdio>

#include "softgpu/driver/api/export.h"
#include "softgpu/driver/graph/graph.h"
#include "softgpu/driver/state/driver.h"

namespace rgpu::softgpu::driver {

namespace {

#define FIND(variable, table, handle) \
    std::lock_guard lock(graph_lock()); \
    auto variable = driver().table.find(handle); \
    if (!variable) return CUDA_ERROR_INVALID_VALUE;

CUresult create(CUgraph *graph, unsigned flags)
{
    if (!graph || flags) return CUDA_ERROR_INVALID_VALUE;
    *graph = driver().graphs.add(std::make_shared<Graph>());
    return CUDA_SUCCESS;
}

CUresult destroy(CUgraph handle)
{
    std::multiset<std::shared_ptr<UserObject>> gone;
    FIND(graph, graphs, handle)
    if (graph->is_child) return CUDA_ERROR_INVALID_VALUE;
    withdraw(*graph);
    // Events that were recorded in its capture may keep the graph itself.
    gone.swap(graph->user_objects);
    return CUDA_SUCCESS;
}

CUresult clone(CUgraph *made, CUgraph handle)
{
    FIND(graph, graphs, handle)
    if (!made) return CUDA_ERROR_INVALID_VALUE;
    if (graph->has_conditional()) return CUDA_ERROR_NOT_SUPPORTED;
    auto copy = graph->clone();
    publish(copy);
    *made = copy->handle();
    return CUDA_SUCCESS;
}

CUresult find_in_clone(CUgraphNode *found, CUgraphNode original, CUgraph handle)
{
    FIND(graph, graphs, handle)
    auto node = driver().graph_nodes.find(original);
    if (!node || !found) return CUDA_ERROR_INVALID_VALUE;
    for (const NodeRef &n : graph->nodes())
        if (n->origin == node->id) {
            *found = n->handle();
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_VALUE;
}

// --- what is in it. Without an array: how many there are. With one: as many as fit, and null for
// what is left of it. An array of no room is a mistake.

template <class Item, class Get>
CUresult list(const std::vector<Item> &all, CUgraphNode *out, size_t *count, Get get)
{
    if (!count || (out && !*count)) return CUDA_ERROR_INVALID_VALUE;
    if (out)
        for (size_t i = 0; i < *count; i++) out[i] = i < all.size() ? get(all[i]) : nullptr;
    if (!out || *count > all.size()) *count = all.size();
    return CUDA_SUCCESS;
}

CUgraphNode handle_of(GraphNode *n) { return n->handle(); }

std::vector<GraphNode *> roots_of(const Graph &g)
{
    std::vector<GraphNode *> roots;
    for (const NodeRef &n : g.nodes())
        if (n->after.empty()) roots.push_back(n.get());
    return roots;
}

CUresult get_nodes(CUgraph handle, CUgraphNode *nodes, size_t *count)
{
    FIND(graph, graphs, handle)
    return list(graph->nodes(), nodes, count, [](const NodeRef &n) { return n->handle(); });
}

CUresult get_roots(CUgraph handle, CUgraphNode *nodes, size_t *count)
{
    FIND(graph, graphs, handle)
    return list(roots_of(*graph), nodes, count, handle_of);
}

// Every edge here is a full dependency.
void clear_edge_data(CUgraphEdgeData *data, const size_t *count, bool asked)
{
    if (data && asked && count)
        for (size_t i = 0; i < *count; i++) data[i] = {};
}

CUresult get_edges_v2(CUgraph handle, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data,
                      size_t *count)
{
    FIND(graph, graphs, handle)
    if (!from != !to) return CUDA_ERROR_INVALID_VALUE;
    struct Edge {
        GraphNode *from, *to;
    };
    std::vector<Edge> edges;
    for (const NodeRef &n : graph->nodes())
        for (GraphNode *before : n->after) edges.push_back({before, n.get()});
    if (!count) return CUDA_ERROR_INVALID_VALUE;
    size_t again = *count;
    list(edges, from, &again, [](const Edge &e) { return e.from->handle(); });
    CUresult rc = list(edges, to, count, [](const Edge &e) { return e.to->handle(); });
    clear_edge_data(data, count, from);
    return rc;
}

CUresult get_edges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count)
{
    return get_edges_v2(graph, from, to, nullptr, count);
}

CUresult get_dependencies_v2(CUgraphNode handle, CUgraphNode *nodes, CUgraphEdgeData *data,
                             size_t *count)
{
    FIND(node, graph_nodes, handle)
    CUresult rc = list(node->after, nodes, count, handle_of);
    clear_edge_data(data, count, nodes);
    return rc;
}

CUresult get_dependencies(CUgraphNode node, CUgraphNode *nodes, size_t *count)
{
    return get_dependencies_v2(node, nodes, nullptr, count);
}

CUresult get_dependents_v2(CUgraphNode handle, CUgraphNode *nodes, CUgraphEdgeData *data,
                           size_t *count)
{
    FIND(node, graph_nodes, handle)
    CUresult rc = list(node->before, nodes, count, handle_of);
    clear_edge_data(data, count, nodes);
    return rc;
}

CUresult get_dependents(CUgraphNode node, CUgraphNode *nodes, size_t *count)
{
    return get_dependents_v2(node, nodes, nullptr, count);
}

CUresult get_type(CUgraphNode handle, CUgraphNodeType *type)
{
    FIND(node, graph_nodes, handle)
    if (!type) return CUDA_ERROR_INVALID_VALUE;
    *type = type_of(*node->work);
    return CUDA_SUCCESS;
}

// --- changing it

// All edges or none.
CUresult change_edges(CUgraph handle, const CUgraphNode *from, const CUgraphNode *to, size_t count,
                      CUresult (Graph::*change)(GraphNode &, GraphNode &),
                      CUresult (Graph::*undo)(GraphNode &, GraphNode &))
{
    FIND(graph, graphs, handle)
    if (count && (!from || !to)) return CUDA_ERROR_INVALID_VALUE;
    CUresult rc = CUDA_SUCCESS;
    size_t i = 0;
    for (; i < count; i++) {
        auto a = driver().graph_nodes.find(from[i]), b = driver().graph_nodes.find(to[i]);
        rc = a && b ? ((*graph).*change)(*a, *b) : CUDA_ERROR_INVALID_VALUE;
        if (rc) break;
    }
    if (rc)
        while (i--)
            ((*graph).*undo)(*driver().graph_nodes.find(from[i]),
                             *driver().graph_nodes.find(to[i]));
    return rc;
}

CUresult add_dependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                          size_t count)
{
    return change_edges(graph, from, to, count, &Graph::connect, &Graph::disconnect);
}

CUresult remove_dependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                             size_t count)
{
    return change_edges(graph, from, to, count, &Graph::disconnect, &Graph::connect);
}

// Weaker edges than full ones are treated as full ones: that only waits longer.
CUresult add_dependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                             const CUgraphEdgeData *, size_t count)
{
    return add_dependencies(graph, from, to, count);
}

CUresult remove_dependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                const CUgraphEdgeData *, size_t count)
{
    return remove_dependencies(graph, from, to, count);
}

CUresult destroy_node(CUgraphNode handle)
{
    FIND(node, graph_nodes, handle)
    if (!node->graph) return CUDA_ERROR_INVALID_VALUE;
    node->graph->remove(*node);
    return CUDA_SUCCESS;
}

CUresult print_dot(CUgraph handle, const char *path, unsigned)
{
    static constexpr const char *names[] = {"KERNEL",         "MEMCPY",       "MEMSET",
                                            "HOST",           "GRAPH",        "EMPTY",
                                            "EVENT_WAIT",     "EVENT_RECORD", "EXT_SEMAS_SIGNAL",
                                            "EXT_SEMAS_WAIT", "MEM_ALLOC",    "MEM_FREE",
                                            "BATCH_MEM_OP",   "CONDITIONAL"};
    FIND(graph, graphs, handle)
    if (!path) return CUDA_ERROR_INVALID_VALUE;
    FILE *f = fopen(path, "w");
    if (!f) return CUDA_ERROR_OPERATING_SYSTEM;
    fprintf(f, "digraph dot {\n");
    for (const NodeRef &n : graph->nodes()) {
        const auto *k = std::get_if<KernelWork>(n->work.get());
        fprintf(f, "\"node_%llu\" [label=\"%s%s%s\"];\n", static_cast<unsigned long long>(n->id),
                names[n->work->index()], k ? "\\n" : "",
                k ? k->launch.function->kernel.name.c_str() : "");
        for (const GraphNode *before : n->after)
            fprintf(f, "\"node_%llu\" -> \"node_%llu\";\n",
                    static_cast<unsigned long long>(before->id),
                    static_cast<unsigned long long>(n->id));
    }
    fprintf(f, "}\n");
    return fclose(f) ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

// --- objects of the program that graphs keep

CUresult object_create(CUuserObject *object, void *data, CUhostFn destroy, unsigned count,
                       unsigned flags)
{
    if (!object || !destroy || !count || count > INT_MAX ||
        flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
        return CUDA_ERROR_INVALID_VALUE;
    auto o = std::make_shared<UserObject>(destroy, data);
    o->references = count;
    *object = driver().user_objects.add(o);
    return CUDA_SUCCESS;
}

CUresult object_retain(CUuserObject handle, unsigned count)
{
    FIND(object, user_objects, handle)
    if (!count || count > INT_MAX) return CUDA_ERROR_INVALID_VALUE;
    object->references += count;
    return CUDA_SUCCESS;
}

CUresult object_release(CUuserObject handle, unsigned count)
{
    std::shared_ptr<UserObject> last;
    FIND(object, user_objects, handle)
    if (!count || count > object->references) return CUDA_ERROR_INVALID_VALUE;
    if (!(object->references -= count)) driver().user_objects.remove(handle);
    last = std::move(object);
    return CUDA_SUCCESS;
}

CUresult graph_retain_object(CUgraph handle, CUuserObject wanted, unsigned count, unsigned flags)
{
    FIND(graph, graphs, handle)
    auto object = driver().user_objects.find(wanted);
    if (!object || !count || flags & ~CU_GRAPH_USER_OBJECT_MOVE) return CUDA_ERROR_INVALID_VALUE;
    if (flags & CU_GRAPH_USER_OBJECT_MOVE) {
        if (count > object->references) return CUDA_ERROR_INVALID_VALUE;
        if (!(object->references -= count)) driver().user_objects.remove(wanted);
    }
    for (unsigned i = 0; i < count; i++) graph->user_objects.insert(object);
    return CUDA_SUCCESS;
}

CUresult graph_release_object(CUgraph handle, CUuserObject wanted, unsigned count)
{
    std::vector<std::shared_ptr<UserObject>> gone;
    FIND(graph, graphs, handle)
    auto &all = graph->user_objects;
    auto first = all.begin();
    while (first != all.end() && (*first)->handle() != wanted) ++first;
    if (!count || first == all.end() || all.count(*first) < count) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        gone.push_back(*first);
        first = all.erase(first);
    }
    return CUDA_SUCCESS;
}

RGPU_EXPORT(cuGraphCreate, create)
RGPU_EXPORT(cuGraphDestroy, destroy)
RGPU_EXPORT(cuGraphClone, clone)
RGPU_EXPORT(cuGraphNodeFindInClone, find_in_clone)
RGPU_EXPORT(cuGraphGetNodes, get_nodes)
RGPU_EXPORT(cuGraphGetRootNodes, get_roots)
RGPU_EXPORT(cuGraphGetEdges, get_edges)
RGPU_EXPORT(cuGraphGetEdges_v2, get_edges_v2)
RGPU_EXPORT(cuGraphNodeGetDependencies, get_dependencies)
RGPU_EXPORT(cuGraphNodeGetDependencies_v2, get_dependencies_v2)
RGPU_EXPORT(cuGraphNodeGetDependentNodes, get_dependents)
RGPU_EXPORT(cuGraphNodeGetDependentNodes_v2, get_dependents_v2)
RGPU_EXPORT(cuGraphNodeGetType, get_type)
RGPU_EXPORT(cuGraphAddDependencies, add_dependencies)
RGPU_EXPORT(cuGraphAddDependencies_v2, add_dependencies_v2)
RGPU_EXPORT(cuGraphRemoveDependencies, remove_dependencies)
RGPU_EXPORT(cuGraphRemoveDependencies_v2, remove_dependencies_v2)
RGPU_EXPORT(cuGraphDestroyNode, destroy_node)
RGPU_EXPORT(cuGraphDebugDotPrint, print_dot)
RGPU_EXPORT(cuUserObjectCreate, object_create)
RGPU_EXPORT(cuUserObjectRetain, object_retain)
RGPU_EXPORT(cuUserObjectRelease, object_release)
RGPU_EXPORT(cuGraphRetainUserObject, graph_retain_object)
RGPU_EXPORT(cuGraphReleaseUserObject, graph_release_object)

}  // namespace

}  // namespace rgpu::softgpu::driver
