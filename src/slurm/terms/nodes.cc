#include "slurm/terms/nodes.h"

#include <charconv>

namespace rgpu::slurm {

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
