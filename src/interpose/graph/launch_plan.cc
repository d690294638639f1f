// SPDX-License-Identifier: Apache-2.0
// The plans of executable graphs, and their launches under way.
//
// Launches of one executable graph follow each other, so the n-th call of a host node's function
// belongs to the n-th launch. A launch whose graph has host nodes fetches what lies before each of
// them when it is called, and the rest in a host function of ours behind the graph; without host
// nodes the fetches are copies in the stream.
#include "interpose/graph/launch_plan.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <set>

#include "interpose/base/background.h"
#include "interpose/base/log.h"
#include "interpose/link/waiting.h"
#include "interpose/mirror/mirror.h"
#include "interpose/state/capture.h"
#include "interpose/state/client.h"
#include "interpose/state/idle.h"
#include "interpose/stream/callback.h"
#include "interpose/stub/by_hand.h"
#include "interpose/stub/stub.h"

namespace rgpu::interpose {

namespace {

struct Plan {
    struct Copy {
        CUgraphNode node{};
        const HostCopy *copy = nullptr;
    };
    struct HostNode {
        CUgraphNode node{};
        uint64_t token = 0;
        std::set<CUgraphNode> before;  // copies that are over when it is called
        size_t calls = 0;
    };
    struct Launch {
        std::set<CUgraphNode> fetched;
    };

    std::mutex mutex;
    HandleId context = 0;
    CUstream side = nullptr;  // for copies while a host node holds the graph
    std::vector<Copy> copies;
    std::vector<HostNode> host_nodes;
    std::deque<Launch> launches;  // under way, oldest first
    size_t finished = 0;          // launches before those

    CUresult walk(CUgraph graph, const std::set<CUgraphNode> &before, std::vector<Copy> &all,
                  unsigned depth = 0);
    CUresult refuse_copies_inside(CUgraphNode conditional, unsigned depth);
    Launch *launch_of_call(size_t call)
    {
        return call - finished < launches.size() ? &launches[call - finished] : nullptr;
    }
};

struct Plans {
    std::mutex mutex;
    std::map<HandleId, std::shared_ptr<Plan>> by_exec;
    std::vector<std::shared_ptr<Plan>> retired;  // of graphs that were destroyed while they ran
    std::map<HandleId, std::vector<CUgraph>> bodies;  // of conditional nodes
    std::atomic<bool> any{false};
};

Plans &plans() { return client_part<Plans>(Part::launch_plans); }

std::shared_ptr<Plan> plan_of(HandleId exec)
{
    if (!plans().any.load(std::memory_order_acquire)) return nullptr;
    std::lock_guard lock(plans().mutex);
    auto it = plans().by_exec.find(exec);
    return it == plans().by_exec.end() ? nullptr : it->second;
}

std::vector<CUgraph> bodies_of(CUgraphNode node)
{
    std::lock_guard lock(plans().mutex);
    auto it = plans().bodies.find(Handles::get().id(node).value_or(calls::kNoHandle));
    return it == plans().bodies.end() ? std::vector<CUgraph>{} : it->second;
}

// As many as one answer can name; and graphs in graphs.
constexpr size_t kMost = wire::kMaxServerBytes / sizeof(HandleId);
constexpr unsigned kDeepest = 256;

struct Edges {
    std::vector<CUgraphNode> nodes, from, to;

    CUresult read(CUgraph graph)
    {
        size_t n = 0;
        if (CUresult r = remote<CallId::cuGraphGetNodes>(graph, nullptr, &n)) return r;
        if (n > kMost) return CUDA_ERROR_UNKNOWN;
        nodes.resize(n);
        if (n)
            if (CUresult r = remote<CallId::cuGraphGetNodes>(graph, nodes.data(), &n)) return r;
        if (CUresult r = remote<CallId::cuGraphGetEdges_v2>(graph, nullptr, nullptr, nullptr, &n))
            return r;
        if (n > kMost) return CUDA_ERROR_UNKNOWN;
        from.resize(n), to.resize(n);
        std::vector<CUgraphEdgeData> data(n);
        return n ? remote<CallId::cuGraphGetEdges_v2>(graph, from.data(), to.data(), data.data(),
                                                      &n)
                 : CUDA_SUCCESS;
    }

    // Everything that comes before `node`.
    std::set<CUgraphNode> before(CUgraphNode node) const
    {
        std::set<CUgraphNode> found;
        std::vector<CUgraphNode> left{node};
        while (!left.empty()) {
            CUgraphNode n = left.back();
            left.pop_back();
            for (size_t i = 0; i < to.size(); i++)
                if (to[i] == n && found.insert(from[i]).second) left.push_back(from[i]);
        }
        return found;
    }
};

// Adds the graph's copies and host nodes; `outer`: the copies that come before the whole graph.
CUresult Plan::walk(CUgraph graph, const std::set<CUgraphNode> &outer, std::vector<Copy> &all,
                    unsigned depth)
{
    if (depth > kDeepest) return CUDA_ERROR_UNKNOWN;
    Edges edges;
    if (CUresult r = edges.read(graph)) return r;
    std::map<CUgraphNode, std::vector<Copy>> of_node;
    std::map<CUgraphNode, CUgraphNodeType> types;
    for (CUgraphNode node : edges.nodes) {
        CUgraphNodeType type{};
        if (CUresult r = remote<CallId::cuGraphNodeGetType>(node, &type)) return r;
        types[node] = type;
        if (type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
            if (CUresult r = refuse_copies_inside(node, depth)) return r;
        if (type != CU_GRAPH_NODE_TYPE_MEMCPY) continue;
        std::vector<uint8_t> raw;
        CUDA_MEMCPY3D c{};
        if (CUresult r = remote<CallId::cuGraphMemcpyNodeGetParams>(node, &c)) return r;
        // The answer names the program's memory again: that leads back to the shadow.
        CUDA_MEMCPY3D sent = c;
        if (CUresult r = in_server_memory(sent)) return r;
        if (const HostCopy *copy = in_program_memory(sent)) of_node[node].push_back({node, copy});
    }
    auto copies_before = [&](CUgraphNode node) {
        std::set<CUgraphNode> found = outer;
        for (CUgraphNode n : edges.before(node))
            for (const Copy &c : of_node[n]) found.insert(c.node);
        return found;
    };
    // Child graphs in an order in which what comes before them is known already.
    std::vector<CUgraphNode> children;
    for (auto [node, type] : types)
        if (type == CU_GRAPH_NODE_TYPE_GRAPH) children.push_back(node);
    std::sort(children.begin(), children.end(), [&](CUgraphNode a, CUgraphNode b) {
        return edges.before(a).size() < edges.before(b).size();
    });
    for (CUgraphNode node : children) {
        CUgraph inner = nullptr;
        if (CUresult r = remote<CallId::cuGraphChildGraphNodeGetGraph>(node, &inner)) return r;
        if (CUresult r = walk(inner, copies_before(node), of_node[node], depth + 1)) return r;
    }
    for (auto [node, type] : types) {
        if (type != CU_GRAPH_NODE_TYPE_HOST) continue;
        CUDA_HOST_NODE_PARAMS p{};
        if (CUresult r = remote<CallId::cuGraphHostNodeGetParams>(node, &p)) return r;
        host_nodes.push_back({node, graph_function(p.fn, p.userData), copies_before(node)});
    }
    for (auto &[node, list] : of_node) all.insert(all.end(), list.begin(), list.end());
    return CUDA_SUCCESS;
}

// Whether a conditional node's graphs run, and how often, only the GPU knows.
CUresult Plan::refuse_copies_inside(CUgraphNode conditional, unsigned depth)
{
    std::vector<Copy> inside;
    for (CUgraph body : bodies_of(conditional))
        if (CUresult r = walk(body, {}, inside, depth + 1)) return r;
    if (inside.empty()) return CUDA_SUCCESS;
    say("a graph of a conditional node copies from or to the program's memory, which a remote GPU "
        "cannot do: copy before the launch, or behind it");
    return CUDA_ERROR_NOT_SUPPORTED;
}

// With the plan's lock held: fetches now what `wanted` says and the launch has not fetched yet.
template <class Wanted> void fetch(Plan &plan, Plan::Launch &launch, Wanted wanted)
{
    for (const auto &[node, copy] : plan.copies)
        if (!copy->to_device && wanted(node) && launch.fetched.insert(node).second)
            copy_box(copy->transfer, plan.side, CopyWait::always);
}

// The thread that runs host functions has no context of its own.
class InContext {
public:
    explicit InContext(HandleId context) { push_context(context); }
    ~InContext() { pop_context(); }
};

// The plan and host node whose function is called now, and which launch calls it.
struct Called {
    std::shared_ptr<Plan> plan;
    Plan::HostNode *node = nullptr;
    std::unique_lock<std::mutex> lock;
};

Called find_called(uint64_t token)
{
    std::vector<std::shared_ptr<Plan>> all;
    {
        std::lock_guard lock(plans().mutex);
        all = plans().retired;
        for (auto &[exec, plan] : plans().by_exec) all.push_back(plan);
    }
    for (auto &plan : all) {
        if (!is_here(plan->context)) continue;  // the same function in another server's graph
        std::unique_lock lock(plan->mutex);
        for (Plan::HostNode &n : plan->host_nodes)
            if (n.token == token && plan->launch_of_call(n.calls))
                return {plan, &n, std::move(lock)};
    }
    return {};
}

// Behind a launch with host nodes: the rest of what is to be fetched.
void finish(const std::shared_ptr<Plan> &held)
{
    Plan &plan = *held;
    InContext context(plan.context);
    bool last = false;
    {
        std::lock_guard lock(plan.mutex);
        if (plan.launches.empty()) return;
        fetch(plan, plan.launches.front(), [](CUgraphNode) { return true; });
        plan.launches.pop_front();
        plan.finished++;
        last = plan.launches.empty();
    }
    if (!last) return;
    std::lock_guard lock(plans().mutex);
    if (std::erase(plans().retired, held)) remote<CallId::cuStreamDestroy_v2>(plan.side);
}

// The host function that does so. `data`: the plan, shared.
void finish_launch(void *data)
{
    const std::unique_ptr<std::shared_ptr<Plan>> held(static_cast<std::shared_ptr<Plan> *>(data));
    in_our_thread(*session(), [&] { finish(*held); });
}

// Before and after a host node's function runs, in the thread that runs it: the program's memory is
// as the graph's copies before it left it, and copies behind it will see what it wrote.
void before_host_node(uint64_t token)
{
    Called called = find_called(token);
    if (!called.node) return;
    InContext context(called.plan->context);
    Plan::Launch &launch = *called.plan->launch_of_call(called.node->calls);
    fetch(*called.plan, launch, [&](CUgraphNode n) { return called.node->before.contains(n); });
}

void after_host_node(uint64_t token)
{
    Called called = find_called(token);
    if (!called.node) return;
    InContext context(called.plan->context);
    bool sent = false;
    for (const auto &[node, copy] : called.plan->copies)
        if (copy->to_device && !called.node->before.contains(node))
            copy_box(copy->transfer, called.plan->side, CopyWait::never), sent = true;
    if (sent) remote<CallId::cuStreamSynchronize>(called.plan->side);
    called.node->calls++;
}

}  // namespace

void note_bodies(CUgraphNode node, std::vector<CUgraph> graphs)
{
    std::lock_guard lock(plans().mutex);
    plans().bodies[Handles::get().id(node).value_or(calls::kNoHandle)] = std::move(graphs);
}

void forget_bodies(HandleId node)
{
    std::lock_guard lock(plans().mutex);
    plans().bodies.erase(node);
}

CUresult plan_launches(CUgraphExec exec, CUgraph graph)
{
    auto number = Handles::get().id(exec);
    if (!number || !*number) return CUDA_ERROR_INVALID_HANDLE;
    if (!any_host_copy() && !any_graph_function()) return CUDA_SUCCESS;
    auto plan = std::make_shared<Plan>();
    plan->context = current_context();
    if (CUresult r = plan->walk(graph, {}, plan->copies)) return r;
    if (plan->copies.empty() && plan->host_nodes.empty()) {
        forget_plan(*number);
        return CUDA_SUCCESS;
    }
    if (!plan->host_nodes.empty()) {
        set_around_graph_functions(before_host_node, after_host_node);
        if (CUresult r = own::cuStreamCreateWithPriority(&plan->side, CU_STREAM_NON_BLOCKING, 0))
            return r;
    }
    std::lock_guard lock(plans().mutex);
    plans().by_exec[*number] = plan;
    plans().any = true;
    return CUDA_SUCCESS;
}

CUresult replan_copy(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *copy)
{
    if (!any_host_copy()) return CUDA_SUCCESS;
    CUDA_MEMCPY3D c = *copy;
    if (CUresult r = in_server_memory(c)) return r;
    const HostCopy *host = in_program_memory(c);
    auto plan = plan_of(Handles::get().id(exec).value_or(calls::kNoHandle));
    if (!plan) return host ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    std::lock_guard lock(plan->mutex);
    std::erase_if(plan->copies, [&](const Plan::Copy &p) { return p.node == node; });
    if (host) plan->copies.push_back({node, host});
    return CUDA_SUCCESS;
}

CUresult replan_host(CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS *host)
{
    auto plan = plan_of(Handles::get().id(exec).value_or(calls::kNoHandle));
    if (!plan) return CUDA_SUCCESS;
    std::lock_guard lock(plan->mutex);
    for (Plan::HostNode &n : plan->host_nodes)
        if (n.node == node) n.token = graph_function(host->fn, host->userData);
    return CUDA_SUCCESS;
}

void forget_plan(HandleId exec)
{
    if (!plans().any) return;
    std::shared_ptr<Plan> plan;
    {
        std::lock_guard lock(plans().mutex);
        auto it = plans().by_exec.find(exec);
        if (it == plans().by_exec.end()) return;
        plan = std::move(it->second);
        plans().by_exec.erase(it);
    }
    std::lock_guard lock(plan->mutex);
    if (!plan->launches.empty()) {
        std::lock_guard all(plans().mutex);
        plans().retired.push_back(plan);
    } else if (plan->side) {
        remote<CallId::cuStreamDestroy_v2>(plan->side);
    }
}

namespace {

CUresult launch(CUgraphExec exec, CUstream stream, HandleId in)
{
    mirror::Work work;
    if (CUresult r = work.begin(in)) return r;
    // A graph whose memory is still allocated is refused, and only the driver knows.
    const Waiting answered(client_counter(Counter::graph_memory) != 0);
    return remote<CallId::cuGraphLaunch>(exec, stream);
}

}  // namespace

CUresult launch_with_plan(CUgraphExec exec, CUstream stream)
{
    idle::events_elsewhere();  // a graph may record events
    HandleId number = 0, in = 0;
    if (session())
        if (CUresult r = detail::id_in(exec, number)) return r;
    auto plan = plan_of(number);
    if (detail::id_in(stream, in) || is_captured(in))
        return remote<CallId::cuGraphLaunch>(exec, stream);
    if (!plan) return launch(exec, stream, in);
    std::lock_guard lock(plan->mutex);
    for (const auto &[node, copy] : plan->copies)
        if (copy->to_device)
            if (CUresult r = copy_box(copy->transfer, stream, CopyWait::never)) return r;
    if (plan->host_nodes.empty()) {
        if (CUresult r = launch(exec, stream, in)) return r;
        for (const auto &[node, copy] : plan->copies)
            if (!copy->to_device)
                if (CUresult r = copy_box(copy->transfer, stream, CopyWait::never)) return r;
        return CUDA_SUCCESS;
    }
    auto held = std::make_unique<std::shared_ptr<Plan>>(plan);
    const size_t callbacks = plan->host_nodes.size();
    plan->launches.emplace_back();
    Unless launched([&] { plan->launches.pop_back(); });
    session()->expect_callbacks(callbacks, callback_due);
    Unless sent([&] { session()->expect_fewer_callbacks(callbacks); });
    CUresult r = launch(exec, stream, in);
    sent.keep();
    if (r) return r;
    launched.keep();
    r = call_in_stream(stream, finish_launch, held.get());
    if (!r) (void)held.release();  // the function's
    return r;
}

}  // namespace rgpu::interpose
