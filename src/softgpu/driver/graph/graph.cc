// SPDX-License-Identifier: Apache-2.0
#include "softgpu/driver/graph/graph.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <queue>

#include "softgpu/driver/graph/condition.h"
#include "softgpu/driver/state/driver.h"

namespace rgpu::softgpu::driver {

namespace {

std::atomic<uint64_t> next_node_id = 1;

bool holds(const std::vector<GraphNode *> &list, const GraphNode *n)
{
    return std::find(list.begin(), list.end(), n) != list.end();
}

}  // namespace

// Never destroyed: cudart calls us after static destructors have run.
std::mutex &graph_lock()
{
    static auto *mutex = new std::mutex;
    return *mutex;
}

GraphNode::GraphNode(Graph *g, uint64_t o, WorkRef w)
    : id(next_node_id++), origin(o), graph(g), work(std::move(w))
{}

Graph::~Graph()
{
    for (const NodeRef &n : nodes_) {
        n->graph = nullptr;
        driver().graph_nodes.remove(n->handle());
    }
}

CUresult Graph::add(WorkRef work, const std::vector<GraphNode *> &after, NodeRef &node,
                    uint64_t origin)
{
    for (size_t i = 0; i < after.size(); i++)
        if (after[i]->graph != this ||
            std::find(after.begin(), after.begin() + i, after[i]) != after.begin() + i)
            return CUDA_ERROR_INVALID_VALUE;
    node = std::make_shared<GraphNode>(this, origin, std::move(work));
    node->after = after;
    for (GraphNode *n : after) n->before.push_back(node.get());
    nodes_.push_back(node);
    driver().graph_nodes.add(node);
    return CUDA_SUCCESS;
}

void Graph::remove(GraphNode &node)
{
    for (GraphNode *n : node.after) std::erase(n->before, &node);
    for (GraphNode *n : node.before) std::erase(n->after, &node);
    node.after.clear();
    node.before.clear();
    node.graph = nullptr;
    for (const auto &inner : graphs_in(*node.work)) withdraw(*inner);
    driver().graph_nodes.remove(node.handle());
    std::erase_if(nodes_, [&](const NodeRef &n) { return n.get() == &node; });
}

CUresult Graph::connect(GraphNode &from, GraphNode &to)
{
    if (from.graph != this || to.graph != this || &from == &to || holds(to.after, &from))
        return CUDA_ERROR_INVALID_VALUE;
    to.after.push_back(&from);
    from.before.push_back(&to);
    return CUDA_SUCCESS;
}

CUresult Graph::disconnect(GraphNode &from, GraphNode &to)
{
    if (from.graph != this || to.graph != this || !holds(to.after, &from))
        return CUDA_ERROR_INVALID_VALUE;
    std::erase(to.after, &from);
    std::erase(from.before, &to);
    return CUDA_SUCCESS;
}

std::shared_ptr<Graph> Graph::clone() const
{
    auto copy = std::make_shared<Graph>();
    copy->user_objects = user_objects;
    std::map<const GraphNode *, GraphNode *> to;
    for (const NodeRef &n : nodes_) {
        WorkRef work = n->work;
        if (const auto *child = std::get_if<ChildWork>(work.get())) {
            auto inner = child->graph->clone();
            inner->is_child = true;
            work = std::make_shared<const Work>(ChildWork{inner});
        }
        NodeRef made;
        copy->add(std::move(work), {}, made, n->id);
        to[n.get()] = made.get();
    }
    for (const NodeRef &n : nodes_)
        for (GraphNode *before : n->after) copy->connect(*to[before], *to[n.get()]);
    return copy;
}

bool Graph::has_conditional() const
{
    return std::any_of(nodes_.begin(), nodes_.end(), [](const NodeRef &n) {
        return std::holds_alternative<ConditionalWork>(*n->work);
    });
}

bool Graph::has_unused_condition() const
{
    return std::any_of(conditions.begin(), conditions.end(),
                       [](const auto &c) { return !c->used; });
}

std::vector<GraphNode *> Graph::sorted() const
{
    const auto later = [](const GraphNode *a, const GraphNode *b) { return a->id > b->id; };
    std::priority_queue<GraphNode *, std::vector<GraphNode *>, decltype(later)> ready(later);
    std::map<const GraphNode *, size_t> blockers;
    for (const NodeRef &n : nodes_) {
        blockers[n.get()] = n->after.size();
        if (n->after.empty()) ready.push(n.get());
    }
    std::vector<GraphNode *> order;
    while (!ready.empty()) {
        GraphNode *n = ready.top();
        ready.pop();
        order.push_back(n);
        for (GraphNode *next : n->before)
            if (--blockers[next] == 0) ready.push(next);
    }
    return order;
}

CUresult add_graph_node(CUgraphNode *node, CUgraph handle, const CUgraphNode *after, size_t count,
                        WorkRef work)
{
    auto graph = driver().graphs.find(handle);
    if (!graph || !node || (count && !after)) return CUDA_ERROR_INVALID_VALUE;
    std::vector<GraphNode *> before;
    std::vector<NodeRef> keep;
    for (size_t i = 0; i < count; i++) {
        keep.push_back(driver().graph_nodes.find(after[i]));
        if (!keep.back()) return CUDA_ERROR_INVALID_VALUE;
        before.push_back(keep.back().get());
    }
    NodeRef made;
    if (CUresult rc = graph->add(std::move(work), before, made)) return rc;
    *node = made->handle();
    return CUDA_SUCCESS;
}

void publish(const std::shared_ptr<Graph> &g)
{
    driver().graphs.add(g);
    for (const NodeRef &n : g->nodes())
        for (const auto &inner : graphs_in(*n->work)) publish(inner);
}

void withdraw(Graph &g)
{
    for (const NodeRef &n : g.nodes()) {
        driver().graph_nodes.remove(n->handle());
        for (const auto &inner : graphs_in(*n->work)) withdraw(*inner);
    }
    driver().graphs.remove(g.handle());
}

}  // namespace rgpu::softgpu::driver
