// SPDX-License-Identifier: Apache-2.0
#include "slurm/terms/nodes.h"

#include <charconv>

#include "util/next_token.h"

namespace rgpu::slurm {

bool names_node_gpus(std::string_view printed)
{
    while (!printed.empty()) {
        std::string_view gres = next_token(printed, ",\n");
        if (gres.substr(0, gres.find_first_of(":(")) == "gpu") return true;
    }
    return false;
}

Nodes parse_nodes(std::string_view text)
{
    auto number_at = [&](unsigned &value) {
        auto [stop, bad] = std::from_chars(text.data(), text.data() + text.size(), value);
        text.remove_prefix(static_cast<size_t>(stop - text.data()));
        return bad == std::errc();
    };
    Nodes out;
    if (!number_at(out.least)) return {};
    out.most = out.least;
    if (text.starts_with('-')) {
        text.remove_prefix(1);
        if (!number_at(out.most)) return {};
    }
    return text.empty() && out.most >= out.least ? out : Nodes{};
}

std::string to_text(const Nodes &nodes)
{
    return nodes.range() ? std::to_string(nodes.least) + "-" + std::to_string(nodes.most)
                         : std::to_string(nodes.least);
}

}  // namespace rgpu::slurm
