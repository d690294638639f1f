// SPDX-License-Identifier: Apache-2.0
// Natural loops: which instructions are headers, and where loops end. Nodes are instructions.
#include "softgpu/lower/nest.h"

#include "softgpu/lower/dominators.h"
#include "softgpu/lower/loops.h"

namespace rgpu::softgpu::lower {

namespace {

constexpr uint32_t kNone = UINT32_MAX;

Edges edges_of(const ptx::Body &body)
{
    Edges next(body.instructions.size());
    for (uint32_t i = 0; i < next.size(); ++i) successors(body, i, next[i]);
    return next;
}

class Loops {
public:
    explicit Loops(const ptx::Body &body)
        : next_(edges_of(body)), n_(static_cast<uint32_t>(next_.size())), flow_(next_, 0),
          member_(n_, kNone)
    {}

    std::vector<Nest> find()
    {
        std::vector<Nest> nest(n_);
        std::vector<uint32_t> members;
        for (uint32_t header : flow_.sorted()) {
            members.clear();
            for (uint32_t end : flow_.before(header))
                if (flow_.dominates(header, end)) add(header, end, members);
            if (members.empty()) continue;
            nest[header].kind = Nest::header;
            for (uint32_t i : members) ++nest[i].depth;
            for (uint32_t i : members)
                for (uint32_t to : next_[i])
                    if (member_[to] != header && nest[to].kind != Nest::header)
                        nest[to].kind = Nest::behind;
        }
        for (Nest &n : nest) n.depth -= n.kind == Nest::header;
        return nest;
    }

private:
    // What leads to `end` without the header, and the header.
    void add(uint32_t header, uint32_t end, std::vector<uint32_t> &members)
    {
        std::vector<uint32_t> open;
        auto take = [&](uint32_t i) {
            if (member_[i] == header) return;
            member_[i] = header;
            members.push_back(i);
            if (i != header) open.push_back(i);
        };
        take(header);
        take(end);
        while (!open.empty()) {
            const uint32_t i = open.back();
            open.pop_back();
            for (uint32_t from : flow_.before(i)) take(from);
        }
    }

    const Edges next_;
    const uint32_t n_;
    const Dominators flow_;
    std::vector<uint32_t> member_;  // of the loop with this header, the last that was looked at
};

}  // namespace

std::vector<Nest> find_nest(const ptx::Body &body)
{
    if (body.instructions.empty()) return {};
    return Loops(body).find();
}

}  // namespace rgpu::softgpu::lower
