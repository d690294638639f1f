// SPDX-License-Identifier: Apache-2.0
// The value that decides what a conditional node does: a word of device memory, whose address is
// the handle that kernels pass to cudaGraphSetConditional (lower/external.cc).
#pragma once

#include <cstdint>
#include <memory>

#include "calls/cuda_api.h"

namespace rgpu::softgpu::driver {

class Context;

// Lives while a graph, a node or an executable graph names it. Any thread.
class Condition {
public:
    // Null when memory is exhausted. Without `assign` nothing is assigned at a launch.
    static std::shared_ptr<Condition> create(Context &, unsigned initial, bool assign);
    ~Condition();
    Condition(const Condition &) = delete;
    Condition &operator=(const Condition &) = delete;

    Context &context;
    const CUgraphConditionalHandle handle;
    // CUDA: a handle is for one node.
    bool used = false;  // under graph_lock()

    // When the graph that it was created for starts, in the order of its work, like what kernels
    // write.
    void start();
    unsigned value() const;

private:
    Condition(Context &c, uint64_t address, unsigned i, bool a)
        : context(c), handle(address), initial_(i), assign_(a)
    {}
    const unsigned initial_;
    const bool assign_;
};

// Null when it is none, or no longer.
std::shared_ptr<Condition> find_condition(CUgraphConditionalHandle);

}  // namespace rgpu::softgpu::driver
