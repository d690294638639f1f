// SPDX-License-Identifier: Apache-2.0
#include "softgpu/lower/await.h"

#include <algorithm>

#include "softgpu/lower/loops.h"

namespace rgpu::softgpu::lower {

namespace {

class Await {
public:
    Await(const ptx::Body &body, const Flow &flow, const std::vector<Cut> &cuts)
        : body_(body), flow_(flow), cuts_(cuts),
          n_(static_cast<uint32_t>(body.instructions.size())), next_(n_), before_(n_)
    {
        for (uint32_t i = 0; i < n_; ++i) {
            successors(body, i, next_[i]);
            for (uint32_t to : next_[i]) before_[to].push_back(i);
        }
    }

    bool found() const
    {
        const std::vector<uint8_t> cyclic = find_loops(body_);
        for (uint32_t i = 0; i < n_; ++i)
            if (cyclic[i] && may_see_stores(body_.instructions[i].opcode) && decides_loop(i))
                return true;
        return false;
    }

private:
    static bool may_see_stores(std::string_view op)
    {
        if (!op.starts_with("ld.") || op.find(".nc") != op.npos) return false;
        return op.find(".shared") == op.npos && !op.starts_with("ld.param") &&
               !op.starts_with("ld.local") && !op.starts_with("ld.const");
    }

    // Does a turn of a loop with a meeting, in which the load's address does not change, end by
    // what the load gave?
    bool decides_loop(uint32_t load) const
    {
        const std::vector<uint8_t> to = reach(load, next_), from = reach(load, before_);
        if (!to[load]) return false;
        std::vector<uint8_t> seen(body_.registers.size(), 0);
        for (uint32_t r : flow_.access(load).writes) seen[r] = 1;
        bool meets = false, decides = false;
        for (bool changed = true; changed;) {
            changed = false;
            for (uint32_t i = 0; i < n_; ++i) {
                if (!to[i] || !from[i]) continue;
                meets |= cuts_[i] != Cut::none;
                const Access &a = flow_.access(i);
                if (std::none_of(a.reads.begin(), a.reads.end(),
                                 [&](uint32_t r) { return seen[r]; }))
                    continue;
                decides |= body_.instructions[i].opcode.starts_with("bra");
                if (body_.instructions[i].opcode.starts_with("ld.")) continue;
                for (uint32_t r : a.writes)
                    if (!seen[r]) seen[r] = 1, changed = true;
            }
        }
        return meets && decides;
    }

    // What can be come to from the load, or comes to it, without a change of its address.
    std::vector<uint8_t> reach(uint32_t load, const std::vector<std::vector<uint32_t>> &edges) const
    {
        const std::vector<uint32_t> &address = flow_.access(load).reads;
        auto changes = [&](uint32_t i) {
            const std::vector<uint32_t> &w = flow_.access(i).writes;
            return std::any_of(w.begin(), w.end(), [&](uint32_t r) {
                return std::find(address.begin(), address.end(), r) != address.end();
            });
        };
        std::vector<uint8_t> found(n_, 0);
        std::vector<uint32_t> open{load};
        while (!open.empty()) {
            const uint32_t i = open.back();
            open.pop_back();
            for (uint32_t to : edges[i]) {
                if (found[to] || changes(to)) continue;
                found[to] = 1;
                open.push_back(to);
            }
        }
        return found;
    }

    const ptx::Body &body_;
    const Flow &flow_;
    const std::vector<Cut> &cuts_;
    const uint32_t n_;
    std::vector<std::vector<uint32_t>> next_, before_;
};

}  // namespace

bool awaits_store(const ptx::Body &body, const Flow &flow, const std::vector<Cut> &cuts)
{
    return Await(body, flow, cuts).found();
}

}  // namespace rgpu::softgpu::lower
