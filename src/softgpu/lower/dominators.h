// SPDX-License-Identifier: Apache-2.0
// What every way from a graph's root to a node passes. As Cooper, Harvey and Kennedy find it («A
// Simple, Fast Dominance Algorithm»).
#pragma once

#include <cstdint>
#include <vector>

namespace rgpu::softgpu::lower {

using Edges = std::vector<std::vector<uint32_t>>;  // of each node: where they lead

class Dominators {
public:
    static constexpr uint32_t kNone = UINT32_MAX;

    Dominators(const Edges &next, uint32_t root);

    // Nodes that can be reached, in reverse postorder.
    const std::vector<uint32_t> &sorted() const { return sorted_; }
    // Those of them with an edge to the node.
    const std::vector<uint32_t> &before(uint32_t node) const { return before_[node]; }
    // The last node but itself on every way to it; the root's is itself, and that of a node that
    // cannot be reached kNone.
    uint32_t of(uint32_t node) const { return dominator_[node]; }
    bool dominates(uint32_t a, uint32_t b) const;

private:
    void number(const Edges &next, uint32_t root);
    uint32_t meet(uint32_t a, uint32_t b) const;

    std::vector<uint32_t> sorted_, order_, dominator_;
    Edges before_;
};

}  // namespace rgpu::softgpu::lower
