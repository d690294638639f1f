// SPDX-License-Identifier: Apache-2.0
#include "softgpu/lower/dominators.h"

#include <algorithm>

namespace rgpu::softgpu::lower {

Dominators::Dominators(const Edges &next, uint32_t root)
    : order_(next.size(), kNone), dominator_(next.size(), kNone), before_(next.size())
{
    number(next, root);
    dominator_[root] = root;
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t node : sorted_) {
            if (node == root) continue;
            uint32_t found = kNone;
            for (uint32_t from : before_[node])
                if (dominator_[from] != kNone) found = found == kNone ? from : meet(found, from);
            if (found != dominator_[node]) dominator_[node] = found, changed = true;
        }
    }
}

void Dominators::number(const Edges &next, uint32_t root)
{
    struct Frame {
        uint32_t node, next;
    };
    std::vector<Frame> frames{{root, 0}};
    std::vector<uint8_t> seen(next.size(), 0);
    seen[root] = 1;
    while (!frames.empty()) {
        Frame &f = frames.back();
        if (f.next == next[f.node].size()) {
            sorted_.push_back(f.node);
            frames.pop_back();
            continue;
        }
        const uint32_t to = next[f.node][f.next++];
        before_[to].push_back(f.node);
        if (!seen[to]) seen[to] = 1, frames.push_back({to, 0});
    }
    std::reverse(sorted_.begin(), sorted_.end());
    for (uint32_t i = 0; i < sorted_.size(); ++i) order_[sorted_[i]] = i;
}

uint32_t Dominators::meet(uint32_t a, uint32_t b) const
{
    while (a != b) {
        while (order_[a] > order_[b]) a = dominator_[a];
        while (order_[b] > order_[a]) b = dominator_[b];
    }
    return a;
}

bool Dominators::dominates(uint32_t a, uint32_t b) const
{
    while (order_[b] > order_[a]) b = dominator_[b];
    return a == b;
}

}  // namespace rgpu::softgpu::lower
