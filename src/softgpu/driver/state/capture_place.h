// SPDX-License-Identifier: Apache-2.0
// What a stream or an event has to do with a capture. Streams and events carry it; only
// driver/graph knows what a capture and a node are.
#pragma once

#include <memory>
#include <vector>

#include "calls/cuda_api.h"

namespace rgpu::softgpu::driver {

struct Capture;
class GraphNode;
using NodeRef = std::shared_ptr<GraphNode>;

// Guarded by graph_lock() (graph/graph.h).
struct CapturePlace {
    std::shared_ptr<Capture> capture;  // null: none
    std::vector<NodeRef> after;        // what the next node depends on
    std::vector<CUgraphNode> listed;   // what cuStreamGetCaptureInfo handed out
};

}  // namespace rgpu::softgpu::driver
