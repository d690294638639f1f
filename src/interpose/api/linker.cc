// SPDX-License-Identifier: Apache-2.0
// The linker (cuLink*) works on the server; its result comes here, where the program looks at it.
// Bodies: wire/jit_bodies.h.
#include <fcntl.h>

#include "interpose/code/jit.h"
#include "interpose/link/image_call.h"
#include "interpose/stub/by_hand.h"
#include "interpose/stub/stub.h"

namespace rgpu::interpose::own {

namespace {

// What a link state keeps for the program: its log buffers, and the finished image.
struct LinkState {
    JitOptions jit;
    std::vector<uint8_t> image;
};

LinkState *state_of(CUlinkState handle)
{
    Slot *s = Handles::get().slot(handle);
    return s ? static_cast<LinkState *>(s->data.load()) : nullptr;
}

}  // namespace

CUresult cuLinkCreate_v2(unsigned int count, CUjit_option *options, void **values, CUlinkState *out)
{
    if (!session()) return not_ready();
    JitOptions jit{count, options, values};
    if (!out || jit.invalid) return CUDA_ERROR_INVALID_VALUE;
    HandleId id = Handles::get().make(HandleKind::link_state, current_context());
    if (!id) return CUDA_ERROR_OUT_OF_MEMORY;
    Unless made([&] { Handles::get().end(id); });
    auto state = std::make_unique<LinkState>(LinkState{jit, {}});
    Reply reply;
    CUresult r = session()->ask(
        CallId::cuLinkCreate_v2, current_context(),
        [&](wire::Writer &w) {
            w.value(id);
            jit.write(w);
        },
        reply);
    if (r) return r;
    made.keep();
    Handles::get().at(id)->data = state.release();
    *out = Handles::get().handle<CUlinkState>(id);
    return CUDA_SUCCESS;
}

CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t bytes,
                          const char *name, unsigned int count, CUjit_option *options,
                          void **values)
{
    if (!session()) return not_ready();
    LinkState *s = state_of(state);
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    JitOptions jit{count, options, values};
    if (!data || !bytes || jit.invalid) return CUDA_ERROR_INVALID_VALUE;
    std::vector<uint8_t> head;
    wire::Writer w(head);
    wire::LinkInput{*Handles::get().id(state), static_cast<uint32_t>(type), name ? name : ""}.write(
        w);
    jit.write(w);
    const std::string_view image(static_cast<const char *>(data), bytes);
    Reply reply;
    CUresult r = ask_with_image(*session(), current_context(), CallId::cuLinkAddData_v2, head,
                                {&image, 1}, reply);
    s->jit.take_logs(reply.body);
    return r;
}

CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path,
                          unsigned int count, CUjit_option *options, void **values)
{
    if (!session()) return not_ready();
    if (!path) return CUDA_ERROR_INVALID_VALUE;
    auto bytes = read_whole(path);
    if (!bytes) return CUDA_ERROR_FILE_NOT_FOUND;
    if (!state_of(state)) return CUDA_ERROR_INVALID_HANDLE;
    if (bytes->empty()) return CUDA_ERROR_INVALID_IMAGE;
    return own::cuLinkAddData_v2(state, type, bytes->data(),
                                 bytes->size() + (type == CU_JIT_INPUT_PTX), path, count, options,
                                 values);
}

CUresult cuLinkComplete(CUlinkState state, void **image, size_t *bytes)
{
    if (!session()) return not_ready();
    LinkState *s = state_of(state);
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    if (!image) return CUDA_ERROR_INVALID_VALUE;
    Reply reply;
    CUresult r = session()->ask(
        CallId::cuLinkComplete, current_context(),
        [&](wire::Writer &w) { w.value(*Handles::get().id(state)); }, reply);
    size_t at = s->jit.take_logs(reply.body);
    if (r) return r;
    if (at >= reply.body.size()) return CUDA_ERROR_UNKNOWN;
    s->image.assign(reply.body.begin() + static_cast<ptrdiff_t>(at), reply.body.end());
    *image = s->image.data();
    if (bytes) *bytes = s->image.size();
    return CUDA_SUCCESS;
}

CUresult cuLinkDestroy(CUlinkState state)
{
    LinkState *s = state_of(state);
    CUresult r = remote<CallId::cuLinkDestroy>(state);
    if (!r) delete s;
    return r;
}

CUresult cuLinkCreate(unsigned int count, CUjit_option *options, void **values, CUlinkState *out)
{
    return own::cuLinkCreate_v2(count, options, values, out);
}
CUresult cuLinkAddData(CUlinkState state, CUjitInputType type, void *data, size_t bytes,
                       const char *name, unsigned int count, CUjit_option *options, void **values)
{
    return own::cuLinkAddData_v2(state, type, data, bytes, name, count, options, values);
}
CUresult cuLinkAddFile(CUlinkState state, CUjitInputType type, const char *path, unsigned int count,
                       CUjit_option *options, void **values)
{
    return own::cuLinkAddFile_v2(state, type, path, count, options, values);
}

}  // namespace rgpu::interpose::own
