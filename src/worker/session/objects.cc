// SPDX-License-Identifier: Apache-2.0
// The table's two halves, and the way back from a driver's handle to its number.
#include "worker/session/objects.h"

namespace rgpu::worker {

Objects::Object *Objects::at(HandleId id)
{
    id = own(id);
    auto &half = id < calls::kFirstServerHandle ? all_ : ours_;
    const size_t i = id < calls::kFirstServerHandle ? id : id - calls::kFirstServerHandle;
    return i < half.size() ? &half[i] : nullptr;
}

void Objects::put(HandleId id, Object o)
{
    id = own(id);
    auto &half = id < calls::kFirstServerHandle ? all_ : ours_;
    const size_t i = id < calls::kFirstServerHandle ? id : id - calls::kFirstServerHandle;
    if (i >= half.size()) half.resize(i + 1);
    if (half[i].kind != HandleKind::none) end(id);  // the client has ended it; the driver would not
    half[i] = o;
    numbers_[o] = id;
}

void Objects::clear(HandleId id, Object &o)
{
    if (auto it = numbers_.find(o); it != numbers_.end() && it->second == id) numbers_.erase(it);
    functions_.erase(id);
    o = {};
}

void Objects::end(HandleId id)
{
    id = own(id);
    Object *o = at(id);
    if (!o || o->kind == HandleKind::none) return;
    clear(id, *o);
    if (id >= calls::kFirstServerHandle) free_.push_back(id);
    const auto found = found_in_.find(id);
    if (found == found_in_.end()) return;
    const std::vector<HandleId> functions = std::move(found->second);
    found_in_.erase(found);
    for (HandleId f : functions)
        // A number may have been another object's since.
        if (auto it = functions_.find(f); it != functions_.end() && it->second.owner == id) end(f);
}

void Objects::set_function(HandleId id, HandleId owner, std::vector<Parameter> parameters)
{
    id = own(id), owner = own(owner);
    if (functions_[id].owner != owner) found_in_[owner].push_back(id);
    functions_[id] = {owner, std::move(parameters)};
}

HandleId Objects::number(Object o)
{
    if (auto it = numbers_.find(o); it != numbers_.end()) return it->second;
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
