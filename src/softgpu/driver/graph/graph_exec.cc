// SPDX-License-Identifier: Apache-2.0
#include "softgpu/driver/graph/graph_exec.h"

#include "softgpu/driver/graph/condition.h"
#include "softgpu/driver/graph/graph_memory.h"
#include "softgpu/driver/state/context.h"
#include "softgpu/driver/state/driver.h"
#include "softgpu/driver/state/event.h"
#include "softgpu/driver/state/stream.h"

namespace rgpu::softgpu::driver {

namespace {

WorkRef nothing()
{
    static const auto *work = new WorkRef(std::make_shared<const Work>(EmptyWork{}));
    return *work;
}

}  // namespace

// Adds the graph's steps behind `after`. False when there is a cycle.
bool GraphExec::flatten(const Graph &graph, const std::vector<uint32_t> &after,
                        std::vector<Step> &steps)
{
    const std::vector<GraphNode *> order = graph.sorted();
    if (order.size() != graph.nodes().size()) return false;
    std::map<const GraphNode *, uint32_t> place;
    for (GraphNode *n : order) {
        Step step{n, n->id, n->work, {}, 0, true};
        for (const GraphNode *before : n->after) step.after.push_back(place[before]);
        if (n->after.empty()) step.after = after;
        if (const auto *child = std::get_if<ChildWork>(n->work.get())) {
            const auto entry = static_cast<uint32_t>(steps.size());
            steps.push_back({n, 0, nothing(), step.after, 0, true});
            if (!flatten(*child->graph, {entry}, steps)) return false;
            step.after.clear();
            for (uint32_t i = entry; i < steps.size(); i++) step.after.push_back(i);
            step.entry = entry;
        }
        if (const auto *c = std::get_if<ConditionalWork>(n->work.get()))
            if (!(step.work = with_bodies(*c))) return false;
        place[n] = static_cast<uint32_t>(steps.size());
        steps.push_back(std::move(step));
    }
    return true;
}

// The same work with its graphs made executable; null where one has a cycle, or a node that CUDA
// does not allow there.
WorkRef GraphExec::with_bodies(const ConditionalWork &work)
{
    ConditionalWork made = work;
    for (const auto &graph : work.graphs) {
        std::vector<Step> steps;
        if (!flatten(*graph, {}, steps)) return nullptr;
        auto body = std::make_shared<Body>();
        body->conditions = graph->conditions;
        for (const Step &s : steps) {
            switch (type_of(*s.work)) {
            case CU_GRAPH_NODE_TYPE_GRAPH:  // its steps stand there themselves
            case CU_GRAPH_NODE_TYPE_EMPTY: continue;
            case CU_GRAPH_NODE_TYPE_KERNEL:
            case CU_GRAPH_NODE_TYPE_MEMCPY:
            case CU_GRAPH_NODE_TYPE_MEMSET:
            case CU_GRAPH_NODE_TYPE_CONDITIONAL: body->steps.push_back(s.work); break;
            default: return nullptr;
            }
        }
        made.bodies.push_back(std::move(body));
    }
    return std::make_shared<const Work>(std::move(made));
}

CUresult GraphExec::create(const Graph &graph, uint64_t flags, std::shared_ptr<GraphExec> &made)
{
    std::shared_ptr<GraphExec> e(new GraphExec(flags));
    if (!flatten(graph, {}, e->steps_)) return CUDA_ERROR_INVALID_VALUE;
    for (uint32_t i = 0; i < e->steps_.size(); i++)
        if (e->steps_[i].id) e->by_node_[e->steps_[i].id] = i;
    e->user_objects_ = graph.user_objects;
    e->conditions_ = graph.conditions;
    made = std::move(e);
    return CUDA_SUCCESS;
}

// Takes and gives back what memory nodes name, in the order of launches: all that this launch
// leaves allocated must not be so yet, unless it was this graph's and may be freed by the launch.
CUresult GraphExec::allocate()
{
    for (const Step &s : steps_)
        if (const auto *a = std::get_if<AllocWork>(s.work.get()); a && a->memory->allocated()) {
            if (!(flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH))
                return CUDA_ERROR_INVALID_VALUE;
            a->memory->free();
        }
    for (const Step &s : steps_) {
        if (const auto *a = std::get_if<AllocWork>(s.work.get())) a->memory->allocate();
        if (const auto *f = std::get_if<FreeWork>(s.work.get()))
            if (!f->memory->free()) return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult GraphExec::launch(Stream &stream)
{
    for (const Step &s : steps_)
        if (s.enabled)
            if (CUresult rc = runnable(*s.work)) return rc;
    if (CUresult rc = allocate()) return rc;
    // What events mean is decided now, before the graph takes its place: they cannot mean work
    // behind it.
    std::map<uint32_t, TaskRef> waits;
    for (uint32_t i = 0; i < steps_.size(); i++)
        if (const auto *w = std::get_if<WaitWork>(steps_[i].work.get()))
            waits[i] = w->event->task();

    Scheduler &scheduler = driver().scheduler;
    Context &context = stream.context;
    // Memory that nodes allocate stays until the launch is over, even if the graph goes before.
    std::vector<WorkRef> memory;
    for (const Step &s : steps_)
        if (std::holds_alternative<AllocWork>(*s.work)) memory.push_back(s.work);
    const auto first = std::make_shared<Task>([conditions = conditions_] {
        for (const auto &c : conditions) c->start();
    });
    const auto last = std::make_shared<Task>([memory] {});
    context.streams.order_group(stream, first, last, {last_});
    std::vector<TaskRef> tasks(steps_.size());
    std::vector<TaskRef> after;
    for (uint32_t i = 0; i < steps_.size(); i++) {
        const Step &s = steps_[i];
        after.assign(1, first);
        for (uint32_t before : s.after) after.push_back(tasks[before]);
        if (waits.count(i)) after.push_back(waits[i]);
        const auto add = [&](std::function<void()> work) {
            auto task = std::make_shared<Task>(std::move(work));
            scheduler.add(task, after);
            return task;
        };
        if (const auto *r = std::get_if<RecordWork>(s.work.get()))
            r->event->record(
                [&](std::function<void()> work) { return tasks[i] = add(std::move(work)); });
        else if (s.enabled)
            tasks[i] = add([work = s.work, &context] { perform(*work, context); });
        else
            tasks[i] = add([] {});
    }
    scheduler.release(last, tasks.empty() ? std::vector<TaskRef>{first} : tasks);
    last_ = last;
    return CUDA_SUCCESS;
}

// --- changing it

const GraphExec::Step *GraphExec::find(const GraphNode &n) const
{
    auto it = by_node_.find(n.id);
    return it == by_node_.end() ? nullptr : &steps_[it->second];
}

const Work *GraphExec::work(const GraphNode &n) const
{
    const Step *s = find(n);
    return s ? s->work.get() : nullptr;
}

CUresult GraphExec::set_work(const GraphNode &n, WorkRef work)
{
    Step *s = find(n);
    if (!s || !may_replace(*s->work, *work)) return CUDA_ERROR_INVALID_VALUE;
    s->work = std::move(work);
    return CUDA_SUCCESS;
}

CUresult GraphExec::set_enabled(const GraphNode &n, bool on)
{
    Step *s = find(n);
    // CUDA: kernels, copies and fills only.
    if (!s || type_of(*s->work) > CU_GRAPH_NODE_TYPE_MEMSET) return CUDA_ERROR_INVALID_VALUE;
    s->enabled = on;
    return CUDA_SUCCESS;
}

CUresult GraphExec::enabled(const GraphNode &n, bool &on) const
{
    const Step *s = find(n);
    if (!s || type_of(*s->work) > CU_GRAPH_NODE_TYPE_MEMSET) return CUDA_ERROR_INVALID_VALUE;
    on = s->enabled;
    return CUDA_SUCCESS;
}

CUresult GraphExec::fits(const Step &old, const Step &now, CUgraphExecUpdateResult &why)
{
    why = CU_GRAPH_EXEC_UPDATE_SUCCESS;
    if (old.after != now.after)
        why = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    else if (old.work->index() != now.work->index())
        why = CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    else if (!may_replace(*old.work, *now.work))
        why = type_of(*old.work) == CU_GRAPH_NODE_TYPE_KERNEL
                  ? CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE
                  : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    return why ? CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE : CUDA_SUCCESS;
}

CUresult GraphExec::set_child(const GraphNode &n, const Graph &child)
{
    const Step *end = find(n);
    if (!end || type_of(*end->work) != CU_GRAPH_NODE_TYPE_GRAPH) return CUDA_ERROR_INVALID_VALUE;
    const size_t from = end->entry + 1, count = by_node_[n.id] - from;
    // In the same places, so that dependencies can be compared: behind as many steps as there are
    // before it.
    std::vector<Step> now(from, Step{nullptr, 0, nothing(), {}, 0, true});
    if (!flatten(child, {end->entry}, now) || now.size() != from + count)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphExecUpdateResult why;
    for (size_t i = from; i < now.size(); i++)
        if (fits(steps_[i], now[i], why)) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = from; i < now.size(); i++) steps_[i].work = now[i].work;
    return CUDA_SUCCESS;
}

CUresult GraphExec::update(const Graph &graph, CUgraphExecUpdateResultInfo &info)
{
    info = {CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, nullptr, nullptr};
    std::vector<Step> now;
    if (!flatten(graph, {}, now)) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    // cuGraphExecUpdate: no node is named where the counts differ.
    if (now.size() != steps_.size()) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    for (size_t i = 0; i < now.size(); i++)
        if (CUresult rc = fits(steps_[i], now[i], info.result)) {
            info.errorNode = now[i].node->handle();
            return rc;
        }
    for (size_t i = 0; i < now.size(); i++) steps_[i].work = now[i].work;
    user_objects_ = graph.user_objects;
    conditions_ = graph.conditions;
    info = {CU_GRAPH_EXEC_UPDATE_SUCCESS, nullptr, nullptr};
    return CUDA_SUCCESS;
}

std::shared_ptr<Graph> GraphExec::to_graph() const
{
    auto graph = std::make_shared<Graph>();
    graph->user_objects = user_objects_;
    std::vector<GraphNode *> nodes;
    for (const Step &s : steps_) {
        if (type_of(*s.work) == CU_GRAPH_NODE_TYPE_CONDITIONAL) return nullptr;
        std::vector<GraphNode *> after;
        for (uint32_t i : s.after) after.push_back(nodes[i]);
        // The end of a child graph, whose steps stand here themselves, does nothing; nor does a
        // disabled node.
        const bool idle = !s.enabled || type_of(*s.work) == CU_GRAPH_NODE_TYPE_GRAPH;
        NodeRef made;
        graph->add(idle ? nothing() : s.work, after, made);
        nodes.push_back(made.get());
    }
    return graph;
}

}  // namespace rgpu::softgpu::driver
