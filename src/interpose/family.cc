// The parts of each graph, as they were named.
#include "interpose/family.h"

#include <unordered_map>

namespace rgpu::interpose {

namespace {

struct Families {
    std::mutex mutex;
    std::unordered_map<HandleId, std::vector<HandleId>> parts;  // by graph
};

Families &families()
{
    static Families &f = *new Families;
    return f;
}

bool is_part(const Slot &s)
{
    const HandleKind kind = s.kind.load(std::memory_order_acquire);
    return kind == HandleKind::graph_node || kind == HandleKind::graph;
}

// With the mutex held.
void end_parts(HandleId graph, std::vector<HandleId> &ended)
{
    auto it = families().parts.find(graph);
    if (it == families().parts.end()) return;
    const std::vector<HandleId> parts = std::move(it->second);
    families().parts.erase(it);
    for (HandleId part : parts) {
        Slot *s = Handles::get().at(part);
        // A number may have been ended, and used again elsewhere, since it was noted here.
        if (!is_part(*s) || s->parent != graph) continue;
        end_parts(part, ended);
        Handles::get().end(part);
        ended.push_back(part);
    }
}

}  // namespace

void belongs(HandleId part, HandleId graph)
{
    Slot *s = Handles::get().at(part);
    std::lock_guard lock(families().mutex);
    if (s->parent == graph) return;
    s->parent = graph;
    families().parts[graph].push_back(part);
}

HandleId owner_of(HandleId part)
{
    if (!part) return calls::kNoHandle;
    std::lock_guard lock(families().mutex);
    return Handles::get().at(part)->parent;
}

std::vector<HandleId> end_parts(HandleId graph)
{
    std::vector<HandleId> ended;
    std::lock_guard lock(families().mutex);
    end_parts(graph, ended);
    return ended;
}

}  // namespace rgpu::interpose
