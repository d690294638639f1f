// Natural loops: which instructions are headers, and where loops end. Dominators as Cooper, Harvey
// and Kennedy find them («A Simple, Fast Dominance Algorithm»); nodes are instructions.
#include <algorithm>

#include "softgpu/lower/loops.h"
#include "softgpu/lower/nest.h"

namespace rgpu::softgpu::lower {

namespace {

constexpr uint32_t kNone = UINT32_MAX;

class Loops {
public:
    explicit Loops(const ptx::Body &body)
        : n_(static_cast<uint32_t>(body.instructions.size())), next_(n_), before_(n_),
          order_(n_, kNone), dominator_(n_, kNone), member_(n_, kNone)
    {
        for (uint32_t i = 0; i < n_; ++i) successors(body, i, next_[i]);
    }

    std::vector<Nest> find()
    {
        std::vector<Nest> nest(n_);
        if (!n_) return nest;
        number();
        dominate();
        std::vector<uint32_t> members;
        for (uint32_t header : sorted_) {
            members.clear();
            for (uint32_t end : before_[header])
                if (dominates(header, end)) add(header, end, members);
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
    // Reverse postorder, of what can be reached, and the edges the other way round.
    void number()
    {
        struct Frame {
            uint32_t node, next;
        };
        std::vector<Frame> frames{{0, 0}};
        std::vector<uint8_t> seen(n_, 0);
        seen[0] = 1;
        while (!frames.empty()) {
            Frame &f = frames.back();
            if (f.next == next_[f.node].size()) {
                sorted_.push_back(f.node);
                frames.pop_back();
                continue;
            }
            const uint32_t to = next_[f.node][f.next++];
            before_[to].push_back(f.node);
            if (!seen[to]) seen[to] = 1, frames.push_back({to, 0});
        }
        std::reverse(sorted_.begin(), sorted_.end());
        for (uint32_t i = 0; i < sorted_.size(); ++i) order_[sorted_[i]] = i;
    }

    void dominate()
    {
        dominator_[0] = 0;
        for (bool changed = true; changed;) {
            changed = false;
            for (uint32_t node : sorted_) {
                if (node == 0) continue;
                uint32_t found = kNone;
                for (uint32_t from : before_[node])
                    if (dominator_[from] != kNone)
                        found = found == kNone ? from : meet(found, from);
                if (found != dominator_[node]) dominator_[node] = found, changed = true;
            }
        }
    }
    uint32_t meet(uint32_t a, uint32_t b) const
    {
        while (a != b) {
            while (order_[a] > order_[b]) a = dominator_[a];
            while (order_[b] > order_[a]) b = dominator_[b];
        }
        return a;
    }
    bool dominates(uint32_t a, uint32_t b) const
    {
        while (order_[b] > order_[a]) b = dominator_[b];
        return a == b;
    }

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
            for (uint32_t from : before_[i]) take(from);
        }
    }

    uint32_t n_;
    std::vector<std::vector<uint32_t>> next_, before_;
    std::vector<uint32_t> sorted_, order_, dominator_;
    std::vector<uint32_t> member_;  // of the loop with this header, the last that was looked at
};

}  // namespace

std::vector<Nest> find_nest(const ptx::Body &body) { return Loops(body).find(); }

}  // namespace rgpu::softgpu::lower
