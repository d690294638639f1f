// SPDX-License-Identifier: Apache-2.0
#include "interpose/stub/stub.h"

namespace rgpu::interpose {

CUresult thread_stream(HandleId &id)
{
    // Where cudart is told that no context is current, it makes one current and calls again.
    if (CUresult r = context_state()) return r;
    ThreadStream &stream = own_default_stream();
    const auto lives = [&stream](const Slot *s) {
        return s->kind.load(std::memory_order_acquire) == HandleKind::stream &&
               s->stamp == stream.stamp;
    };
    // It ends with a primary context that is reset.
    if (stream.id && !lives(Handles::get().at(stream.id))) stream = {};
    if (!stream.id) {
        CUstream made = nullptr;
        if (CUresult r = remote<CallId::cuStreamCreate>(&made, CU_STREAM_DEFAULT)) return r;
        if (const Slot *s = Handles::get().slot(made))
            stream = {*Handles::get().id(made), s->stamp};
    }
    id = stream.id;
    return id ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

}  // namespace rgpu::interpose
