// SPDX-License-Identifier: Apache-2.0
// A graph made executable: its work in an order that its dependencies allow, child graphs laid
// open.
//
// It shares the nodes' work and needs the graph no longer. Changing a step replaces its work;
// launches under way keep what they have.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "calls/cuda_api.h"
#include "softgpu/driver/base/scheduler.h"
#include "softgpu/driver/graph/graph.h"

namespace rgpu::softgpu::driver {

class Stream;

// All under graph_lock().
class GraphExec {
public:
    // INVALID_VALUE when the graph has a cycle.
    static CUresult create(const Graph &, uint64_t flags, std::shared_ptr<GraphExec> &);

    const uint64_t flags;
    CUgraphExec handle() { return reinterpret_cast<CUgraphExec>(this); }

    // In the stream's order, and after this graph's launch before. Returns at once.
    CUresult launch(Stream &);
    // Of the node of the graph that it was made from; INVALID_VALUE when there is none, or the work
    // is of another kind.
    CUresult set_work(const GraphNode &, WorkRef);
    CUresult set_enabled(const GraphNode &, bool);
    CUresult enabled(const GraphNode &, bool &) const;
    CUresult set_child(const GraphNode &, const Graph &);
    const Work *work(const GraphNode &) const;
    // Takes over the work of a graph of the same shape; on failure says what does not fit, and
    // changes nothing.
    CUresult update(const Graph &, CUgraphExecUpdateResultInfo &);
    // A graph that does the same: what a launch into a captured stream becomes. Null where it has
    // conditional nodes.
    std::shared_ptr<Graph> to_graph() const;

private:
    struct Step {
        GraphNode *node;  // for its handle: it may be gone
        uint64_t id;      // of that node; the entry of a child graph has none
        WorkRef work;
        std::vector<uint32_t> after;  // earlier steps
        uint32_t entry = 0;           // of a child graph's last step: its first
        bool enabled = true;
    };

    explicit GraphExec(uint64_t f) : flags(f) {}
    static bool flatten(const Graph &, const std::vector<uint32_t> &after, std::vector<Step> &);
    static WorkRef with_bodies(const ConditionalWork &);
    static CUresult fits(const Step &old, const Step &now, CUgraphExecUpdateResult &);
    CUresult allocate();
    const Step *find(const GraphNode &) const;
    Step *find(const GraphNode &n)
    {
        return const_cast<Step *>(static_cast<const GraphExec *>(this)->find(n));
    }

    std::vector<Step> steps_;
    std::map<uint64_t, uint32_t> by_node_;
    std::multiset<std::shared_ptr<UserObject>> user_objects_;
    std::vector<std::shared_ptr<Condition>> conditions_;
    TaskRef last_;
};

}  // namespace rgpu::softgpu::driver
