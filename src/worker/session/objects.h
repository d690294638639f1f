// SPDX-License-Identifier: Apache-2.0
// The table from a client's handle numbers to the driver's handles. Used by the dispatcher only.
#pragma once

#include <unordered_map>
#include <vector>

#include "calls/handles.h"
#include "wire/module_bodies.h"

namespace rgpu::worker {

using calls::HandleId;
using calls::HandleKind;

using Parameter = wire::FunctionParameter;  // where it lies in a kernel's block of parameters

class Objects {
public:
    // A function or kernel that was looked up in `owner`, with which it ends, and its parameters.
    void set_function(HandleId id, HandleId owner, std::vector<Parameter>);
    const std::vector<Parameter> *parameters(HandleId id) const
    {
        auto it = functions_.find(own(id));
        return it == functions_.end() ? nullptr : &it->second.parameters;
    }

    // False when the number is none that a client may choose.
    template <class T> bool set(HandleId id, T handle)
    {
        if (id < calls::kFirstHandle || id >= calls::kFirstServerHandle) return false;
        put(id, {calls::kHandleKind<T>, reinterpret_cast<void *>(handle)});
        return true;
    }
    // The number of an object that the driver names: the client's own, or a new one of ours. Null
    // is 0.
    template <class T> HandleId number(T handle)
    {
        if (!handle) return calls::kNoHandle;
        return number({calls::kHandleKind<T>, reinterpret_cast<void *>(handle)});
    }
    // Whether it has a number.
    template <class T> bool known(T handle) const
    {
        return numbers_.contains({calls::kHandleKind<T>, reinterpret_cast<void *>(handle)});
    }
    // With the functions of a module or library.
    void end(HandleId id);
    // The driver's handle for a number, or an error that says what is wrong with it. Null is null;
    // the special streams have their own values as numbers.
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
        if (!o ||
            (o->kind != want && !(want == HandleKind::function && o->kind == HandleKind::kernel)))
            return calls::invalid_handle(want);
        handle = reinterpret_cast<T>(o->handle);
        return CUDA_SUCCESS;
    }

    // The same inside a struct that was carried, where the number stands in the handle's place; 0
    // is no object.
    template <class T> CUresult get_in_place(T &handle) const
    {
        const auto id = static_cast<HandleId>(reinterpret_cast<uintptr_t>(handle));
        handle = nullptr;
        return id ? get(id, handle) : CUDA_ERROR_INVALID_HANDLE;
    }
    template <class T> void number_in_place(T &handle)
    {
        handle = reinterpret_cast<T>(uintptr_t{number(handle)});
    }

private:
    // A client of several servers moves the numbers that each of them gives to a range of its own,
    // a multiple of ours further on.
    static HandleId own(HandleId id)
    {
        return id < calls::kFirstServerHandle
                   ? id
                   : calls::kFirstServerHandle + id % calls::kFirstServerHandle;
    }

    struct Object {
        HandleKind kind = HandleKind::none;
        void *handle = nullptr;
        bool operator==(const Object &) const = default;
    };
    struct Hash {
        size_t operator()(const Object &o) const
        {
            return std::hash<void *>()(o.handle) ^ static_cast<size_t>(o.kind);
        }
    };
    struct Function {
        HandleId owner = 0;
        std::vector<Parameter> parameters;
    };
    Object *at(HandleId id);
    void put(HandleId id, Object);
    void clear(HandleId id, Object &);
    HandleId number(Object);

    std::vector<Object> all_, ours_;  // by number; ours_ from kFirstServerHandle on
    // The last number that an object got: a driver gives the address of one that ended to another.
    std::unordered_map<Object, HandleId, Hash> numbers_;
    std::vector<HandleId> free_;  // of ours_
    std::unordered_map<HandleId, Function> functions_;
    std::unordered_map<HandleId, std::vector<HandleId>> found_in_;  // by owner
};

}  // namespace rgpu::worker
