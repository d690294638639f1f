#include "interpose/stub/stub.h"

namespace rgpu::interpose {

HandleId thread_stream()
{
    ThreadStream &stream = own_default_stream();
    const auto lives = [&stream](const Slot *s) {
        return s->kind.load(std::memory_order_acquire) == HandleKind::stream &&
               s->stamp == stream.stamp;
    };
    // It ends with a primary context that is reset.
    if (stream.id && !lives(Handles::get().at(stream.id))) stream = {};
    if (!stream.id) {
        CUstream made = nullptr;
        if (remote<CallId::cuStreamCreate>(&made, CU_STREAM_DEFAULT) == CUDA_SUCCESS)
            if (const Slot *s = Handles::get().slot(made))
                stream = {*Handles::get().id(made), s->stamp};
    }
    return stream.id;
}

}  // namespace rgpu::interpose
