// SPDX-License-Identifier: Apache-2.0
// Nodes of maps and sets, of each container one, that lie ready: what is to be put there later
// needs no memory then. A container takes a node with insert() and gives it up with extract(),
// neither of which throws. No lock.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <tuple>
#include <utility>
#include <vector>

namespace rgpu {

template <class... Containers> class SpareNodes {
public:
    using Nodes = std::tuple<typename Containers::node_type...>;

    // From now on at least so many lie ready. Where it throws there are fewer, and nothing else has
    // changed.
    void reserve(size_t n)
    {
        if (n > nodes_.capacity()) nodes_.reserve(std::max(n, 2 * nodes_.capacity()));
        while (nodes_.size() < n) nodes_.emplace_back(made<Containers>()...);
    }

    // There is one.
    Nodes take() noexcept
    {
        assert(!nodes_.empty());
        Nodes n = std::move(nodes_.back());
        nodes_.pop_back();
        return n;
    }
    // They lie ready again, if no more than `most` do then.
    void put(Nodes &&n, size_t most) noexcept
    {
        if (nodes_.size() < std::min(most, nodes_.capacity())) nodes_.push_back(std::move(n));
    }

private:
    template <class Container> static typename Container::node_type made()
    {
        Container c;
        c.emplace();
        return c.extract(c.begin());
    }

    std::vector<Nodes> nodes_;
};

}  // namespace rgpu
