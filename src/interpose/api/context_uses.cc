// SPDX-License-Identifier: Apache-2.0
// Use counts of CUDA 3: a context has one use from its creation, and ends with its last.
#include <map>
#include <mutex>

#include "interpose/state/client.h"
#include "interpose/stub/by_hand.h"
#include "interpose/stub/stub.h"

namespace rgpu::interpose {

namespace {

struct Attached {
    std::mutex mutex;
    std::map<HandleId, unsigned> uses;  // beyond the first
};
Attached &attached() { return client_part<Attached>(Part::context_uses); }

}  // namespace

namespace own {

CUresult cuCtxAttach(CUcontext *out, unsigned int flags)
{
    if (!session()) return not_ready();
    const HandleId context = current_context();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    if (!out || flags) return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard lock(attached().mutex);
    attached().uses[context]++;
    *out = Handles::get().handle<CUcontext>(context);
    return CUDA_SUCCESS;
}
CUresult cuCtxDetach(CUcontext context)
{
    if (!session()) return not_ready();
    auto id = Handles::get().id(context);
    if (!id || !*id) return CUDA_ERROR_INVALID_CONTEXT;
    {
        std::lock_guard lock(attached().mutex);
        auto it = attached().uses.find(*id);
        if (it != attached().uses.end()) {
            if (--it->second == 0) attached().uses.erase(it);
            return CUDA_SUCCESS;
        }
    }
    return own::cuCtxDestroy_v2(context);
}

}  // namespace own

}  // namespace rgpu::interpose
