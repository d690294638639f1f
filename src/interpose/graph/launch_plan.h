// SPDX-License-Identifier: Apache-2.0
// What a launch of an executable graph needs from the client: bytes to send before it and to fetch
// after it, and host functions that it will call.
#pragma once

#include <memory>
#include <vector>

#include "interpose/graph/host_copies.h"

namespace rgpu::interpose {

// Reads the graph's nodes, if any graph of this process has such needs, and remembers them for
// `exec`.
CUresult plan_launches(CUgraphExec exec, CUgraph graph);
// The graphs of a conditional node, which nothing tells later.
void note_bodies(CUgraphNode node, std::vector<CUgraph> bodies);
void forget_bodies(HandleId node);
// A node of the executable graph alone was changed.
CUresult replan_copy(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *copy);
CUresult replan_host(CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS *host);
void forget_plan(HandleId exec);

// Launches with all that it needs.
CUresult launch_with_plan(CUgraphExec exec, CUstream stream);

}  // namespace rgpu::interpose
