// SPDX-License-Identifier: Apache-2.0
// The parts of each object, as they were named.
#include "interpose/state/family.h"

#include <unordered_map>

#include "interpose/state/client.h"

namespace rgpu::interpose {

namespace {

struct Families {
    std::mutex mutex;
    std::unordered_map<HandleId, std::vector<HandleId>> parts;  // by their whole
};

Families &families() { return client_part<Families>(Part::families); }

bool is_part(const Slot &s)
{
    const HandleKind kind = s.kind.load(std::memory_order_acquire);
    return kind == HandleKind::graph_node || kind == HandleKind::graph ||
           kind == HandleKind::function || kind == HandleKind::kernel;
}

// With the mutex held.
void take_parts(HandleId whole, std::vector<HandleId> &taken)
{
    auto it = families().parts.find(whole);
    if (it == families().parts.end()) return;
    const std::vector<HandleId> parts = std::move(it->second);
    families().parts.erase(it);
    for (HandleId part : parts) {
        Slot *s = Handles::get().at(part);
        // A number may have been ended, and used again elsewhere, since it was noted here.
        if (!is_part(*s) || s->parent != whole) continue;
        take_parts(part, taken);
        taken.push_back(part);
    }
}

}  // namespace

void belongs(HandleId part, HandleId whole)
{
    Slot *s = Handles::get().at(part);
    std::lock_guard lock(families().mutex);
    if (s->parent == whole) return;
    s->parent = whole;
    families().parts[whole].push_back(part);
}

HandleId owner_of(HandleId part)
{
    if (!part) return calls::kNoHandle;
    std::lock_guard lock(families().mutex);
    return Handles::get().at(part)->parent;
}

std::vector<HandleId> take_parts(HandleId whole)
{
    std::vector<HandleId> taken;
    std::lock_guard lock(families().mutex);
    take_parts(whole, taken);
    for (HandleId part : taken)
        if (part >= calls::kFirstServerHandle) Handles::get().end(part);
    return taken;
}

void end_parts(const std::vector<HandleId> &parts)
{
    for (HandleId part : parts)
        if (part < calls::kFirstServerHandle) Handles::get().end(part);
}

void end_made_in(HandleId context)
{
    for (HandleId id : Handles::get().empty_context(context)) {
        end_parts(take_parts(id));
        Handles::get().end(id);
    }
}

}  // namespace rgpu::interpose
