// SPDX-License-Identifier: Apache-2.0
// Memory that a graph allocates and frees in its own order. Its address is fixed when the node is
// made, and the memory lies there while any node or executable graph names it: allocating and
// freeing say who may use it when.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "calls/cuda_api.h"

namespace rgpu::softgpu::driver {

class Device;

// Any thread.
class GraphMemory : public std::enable_shared_from_this<GraphMemory> {
public:
    // Null when memory is exhausted.
    static std::shared_ptr<GraphMemory> create(Device &, uint64_t bytes);
    ~GraphMemory();

    Device &device;
    const uint64_t address, bytes;

    bool allocated() const { return allocated_; }
    // By a launch, in the order of launch calls. False when it is (not) allocated already. While it
    // is allocated it outlives its graph: then the program frees it.
    bool allocate();
    bool free();

private:
    GraphMemory(Device &d, uint64_t a, uint64_t b) : device(d), address(a), bytes(b) {}
    std::atomic<bool> allocated_ = false;
};

// By the address; null when it is no graph's.
std::shared_ptr<GraphMemory> find_graph_memory(uint64_t address);
// Frees what starts at this address, a graph's or other device memory; INVALID_VALUE when nothing
// does.
CUresult free_memory(uint64_t address);

}  // namespace rgpu::softgpu::driver
