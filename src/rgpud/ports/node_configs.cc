// SPDX-License-Identifier: Apache-2.0
// Keeps what nodes said last.
#include "rgpud/ports/node_configs.h"

#include <algorithm>

#include "util/defaults.h"

namespace rgpu::serverd {
namespace {

bool is_fit(const std::string &text)
{
    return !text.empty() && text.size() <= defaults::kMaxText &&
           std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c <= 0x7e; });
}

}  // namespace

void NodeConfigs::heard(const std::string &node, const std::string &config, Clock::time_point now)
{
    if (!is_fit(node) || !is_fit(config)) return;
    std::lock_guard lock(mutex_);
    if (nodes_.size() >= kMost && !nodes_.contains(node))
        nodes_.erase(
            std::min_element(nodes_.begin(), nodes_.end(), [](const auto &a, const auto &b) {
                return a.second.at < b.second.at;
            }));
    nodes_[node] = {config, now};
}

pool::NodeConfigs NodeConfigs::tell(Clock::time_point now) const
{
    std::lock_guard lock(mutex_);
    pool::NodeConfigs out;
    for (const auto &[node, said] : nodes_)
        out.nodes.push_back(
            {node, said.config,
             std::chrono::duration_cast<std::chrono::milliseconds>(now - said.at).count()});
    return out;
}

}  // namespace rgpu::serverd
