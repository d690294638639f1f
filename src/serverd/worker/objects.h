// The table from a client's handle numbers to the driver's handles. Used by the dispatcher only.
#pragma once

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "calls/handles.h"

namespace rgpu::worker {

using calls::HandleId;
using calls::HandleKind;

// Where a kernel's parameters lie in its parameter block.
struct Parameter {
    uint32_t offset = 0, bytes = 0;
};

class Objects {
public:
    // The parameters of a function or kernel that was looked up.
    void set_parameters(HandleId id, std::vector<Parameter> p) { parameters_[id] = std::move(p); }
    const std::vector<Parameter> *parameters(HandleId id) const
    {
        auto it = parameters_.find(id);
        return it == parameters_.end() ? nullptr : &it->second;
    }

    // False when the number is none that a client may choose.
    template <class T> bool set(HandleId id, T handle)
    {
        if (id < calls::kFirstHandle || id >= calls::kFirstServerHandle) return false;
        put(id, {calls::kHandleKind<T>, reinterpret_cast<void *>(handle)});
        return true;
    }
    // The number of an object that the driver names: the client's own, or a new one of ours. Null is 0.
    template <class T> HandleId number(T handle)
    {
        if (!handle) return calls::kNoHandle;
        return number({calls::kHandleKind<T>, reinterpret_cast<void *>(handle)});
    }
    // Whether it has a number.
    template <class T> bool known(T handle) const
    {
        const Object o{calls::kHandleKind<T>, reinterpret_cast<void *>(handle)};
        return std::find(all_.begin(), all_.end(), o) != all_.end() || std::find(ours_.begin(), ours_.end(), o) != ours_.end();
    }
    void end(HandleId id)
    {
        Object *o = at(id);
        if (!o) return;
        if (auto it = numbers_.find(o->handle); it != numbers_.end() && it->second == id) numbers_.erase(it);
        if (id >= calls::kFirstServerHandle && o->kind != HandleKind::none) free_.push_back(id);
        *o = {};
    }
    // The driver's handle for a number, or an error that says what is wrong with it. Null is null; the
    // special streams have their own values as numbers.
    template <class T> CUresult get(HandleId id, T &handle) const
    {
        constexpr HandleKind want = calls::kHandleKind<T>;
        if (id < calls::kFirstHandle) {
            handle = reinterpret_cast<T>(uintptr_t{id});
            const bool special = want == HandleKind::stream && id <= 2;
            return id == 0 || special ? CUDA_SUCCESS : calls::invalid_handle(want);
        }
        const Object *o = const_cast<Objects *>(this)->at(id);
        // CUDA lets a CUkernel be used as a CUfunction.
        if (!o || (o->kind != want && !(want == HandleKind::function && o->kind == HandleKind::kernel)))
            return calls::invalid_handle(want);
        handle = reinterpret_cast<T>(o->handle);
        return CUDA_SUCCESS;
    }

    // The same inside a struct that was carried, where the number stands in the handle's place; 0 is no object.
    template <class T> CUresult get_in_place(T &handle) const
    {
        const auto id = static_cast<HandleId>(reinterpret_cast<uintptr_t>(handle));
        handle = nullptr;
        return id ? get(id, handle) : CUDA_ERROR_INVALID_HANDLE;
    }
    template <class T> void number_in_place(T &handle) { handle = reinterpret_cast<T>(uintptr_t{number(handle)}); }

private:
    struct Object {
        HandleKind kind = HandleKind::none;
        void *handle = nullptr;
        bool operator==(const Object &) const = default;
    };
    Object *at(HandleId id);
    void put(HandleId id, Object);
    HandleId number(Object);

    std::vector<Object> all_, ours_;  // by number; ours_ from kFirstServerHandle on
    std::unordered_map<void *, HandleId> numbers_;  // of graphs and their nodes, which drivers name often
    std::vector<HandleId> free_;      // of ours_
    std::unordered_map<HandleId, std::vector<Parameter>> parameters_;
};

}  // namespace rgpu::worker
