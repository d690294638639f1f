// SPDX-License-Identifier: Apache-2.0
#include "interpose/stream/sync_copies.h"

#include <mutex>
#include <set>
#include <utility>

#include "interpose/mirror/mirror.h"
#include "interpose/state/client.h"
#include "interpose/state/process.h"
#include "interpose/state/servers.h"
#include "interpose/stub/by_hand.h"

namespace rgpu::interpose::sync_copies {

namespace {

struct Copies {
    std::mutex mutex;
    bool others = false;
    std::set<HandleId> copied;  // contexts in whose legacy stream copies were posted
};

Copies &state() { return client_part<EachServer<Copies>>(Part::synchronous_copies)(); }

}  // namespace

CUresult after_copy(CUstream stream)
{
    // No stream waits for a thread's own.
    if (stream == CU_STREAM_PER_THREAD) return own::cuStreamSynchronize(stream);
    {
        std::lock_guard lock(state().mutex);
        if (!state().others) {
            state().copied.insert(current_context());
            return CUDA_SUCCESS;
        }
    }
    return own::cuStreamSynchronize(stream);
}

CUresult after_change(CUdeviceptr memory, CUstream stream)
{
    return mirror::active() && mirror::find(memory) ? own::cuStreamSynchronize(stream)
                                                    : CUDA_SUCCESS;
}

void others_look()
{
    std::set<HandleId> copied;
    {
        std::lock_guard lock(state().mutex);
        state().others = true;
        copied = std::exchange(state().copied, {});
    }
    for (HandleId context : copied) {
        push_context(context);
        own::cuStreamSynchronize(nullptr);  // an error is that stream's, and told there
        pop_context();
    }
}

}  // namespace rgpu::interpose::sync_copies
