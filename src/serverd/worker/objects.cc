// The table's two halves, and the way back from a driver's handle to its number.
#include "serverd/worker/objects.h"

#include <algorithm>

namespace rgpu::worker {

namespace {

// Kinds that are looked up by handle often enough for an index of their own.
bool indexed(HandleKind kind) { return kind == HandleKind::graph || kind == HandleKind::graph_node; }

}  // namespace

Objects::Object *Objects::at(HandleId id)
{
    auto &half = id < calls::kFirstServerHandle ? all_ : ours_;
    const size_t i = id < calls::kFirstServerHandle ? id : id - calls::kFirstServerHandle;
    return i < half.size() ? &half[i] : nullptr;
}

void Objects::put(HandleId id, Object o)
{
    auto &half = id < calls::kFirstServerHandle ? all_ : ours_;
    const size_t i = id < calls::kFirstServerHandle ? id : id - calls::kFirstServerHandle;
    if (i >= half.size()) half.resize(i + 1);
    half[i] = o;
    if (indexed(o.kind)) numbers_[o.handle] = id;
}

HandleId Objects::number(Object o)
{
    if (indexed(o.kind)) {
        // A driver gives an address again: a graph may lie where a node lay that ended with its own.
        if (auto it = numbers_.find(o.handle); it != numbers_.end())
            if (const Object *known = at(it->second); known && *known == o) return it->second;
    } else if (auto it = std::find(all_.begin(), all_.end(), o); it != all_.end()) {
        return static_cast<HandleId>(it - all_.begin());
    } else if (it = std::find(ours_.begin(), ours_.end(), o); it != ours_.end()) {
        return static_cast<HandleId>(calls::kFirstServerHandle + static_cast<size_t>(it - ours_.begin()));
    }
    HandleId id;
    if (!free_.empty()) {
        id = free_.back();
        free_.pop_back();
    } else {
        if (ours_.size() >= calls::kMaxHandles - calls::kFirstServerHandle) return calls::kNoHandle;
        id = static_cast<HandleId>(calls::kFirstServerHandle + ours_.size());
    }
    put(id, o);
    return id;
}

}  // namespace rgpu::worker
