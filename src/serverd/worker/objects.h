// The table from a client's handle numbers to the driver's handles. Used by the dispatcher only.
#pragma once

#include <vector>

#include "calls/handles.h"

namespace rgpu::worker {

using calls::HandleId;
using calls::HandleKind;

class Objects {
public:
    // False when the number is none that a client may choose.
    template <class T> bool set(HandleId id, T handle)
    {
        if (id < calls::kFirstHandle || id >= calls::kMaxHandles) return false;
        if (id >= all_.size()) all_.resize(id + 1);
        all_[id] = {calls::kHandleKind<T>, reinterpret_cast<void *>(handle)};
        return true;
    }
    void end(HandleId id)
    {
        if (id < all_.size()) all_[id] = {};
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
        if (id >= all_.size()) return calls::invalid_handle(want);
        const Object &o = all_[id];
        // CUDA lets a CUkernel be used as a CUfunction.
        if (o.kind != want && !(want == HandleKind::function && o.kind == HandleKind::kernel))
            return calls::invalid_handle(want);
        handle = reinterpret_cast<T>(o.handle);
        return CUDA_SUCCESS;
    }

private:
    struct Object {
        HandleKind kind = HandleKind::none;
        void *handle = nullptr;
    };
    std::vector<Object> all_;
};

}  // namespace rgpu::worker
