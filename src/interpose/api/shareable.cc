// SPDX-License-Identifier: Apache-2.0
// Memory that processes of a job share by descriptors (state/shareable.h): what is exported here is
// imported by another process of the lease on the same server. Bodies: worker/calls/shareable.cc.
#include "interpose/state/shareable.h"

#include <cinttypes>

#include "interpose/api/shareable.h"
#include "interpose/base/log.h"
#include "interpose/mirror/addresses.h"
#include "interpose/mirror/host_pieces.h"
#include "interpose/mirror/host_pools.h"
#include "interpose/stream/read_ahead.h"
#include "interpose/stream/sync_copies.h"
#include "interpose/stub/by_hand.h"
#include "interpose/stub/stub.h"
#include "wire/shareable.h"

namespace rgpu::interpose {

void tell_closed(size_t most)
{
    if (!shareable::any() || !session()) return;
    for (const auto &closed : shareable::take_closed(most)) {
        At at;
        if (spanning()) at.go(closed.server);
        Reply reply;
        // Memory that the server does not hear of now ends with the program.
        (void)session()->ask(
            CallId::cuMemExportToShareableHandle, current_context(),
            [&](wire::Writer &w) { w.value(wire::ShareStep::closed), w.string(closed.name); },
            reply);
    }
}

namespace {

// From now on others write here, or look at what is written.
void shared_with_others()
{
    read_ahead::written_elsewhere();
    sync_copies::others_look();
}

// Of what descriptors may be made: that they are asked for in another form is no mistake.
CUresult check(const void *handle, CUmemAllocationHandleType type, unsigned long long flags)
{
    if (!session()) return not_ready();
    if (!handle || flags || type == CU_MEM_HANDLE_TYPE_NONE) return CUDA_ERROR_INVALID_VALUE;
    return type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ? CUDA_SUCCESS
                                                            : CUDA_ERROR_NOT_SUPPORTED;
}

// Asks for a name, and makes the descriptor. `write` says of what.
template <class Write> CUresult give(calls::SentCall id, void *handle, Write write)
{
    tell_closed(kSomeClosed);
    shared_with_others();
    Reply reply;
    CUresult r = session()->ask(
        id, current_context(), [&](wire::Writer &w) { w.value(wire::ShareStep::give), write(w); },
        reply);
    if (r) return r;
    wire::Reader answer(reply.body.data(), reply.body.size());
    const std::string_view name = answer.string();
    if (!answer.at_end() || name.empty() || name.size() > wire::kMaxShareableName)
        return CUDA_ERROR_UNKNOWN;
    auto made = shareable::make(name, here());
    if (!made) {
        say("memory cannot be shared: %s", made.error().text.c_str());
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    const int fd = made->release();
    memcpy(handle, &fd, sizeof fd);
    return CUDA_SUCCESS;
}

// Calls ask(name) at each server until one knows the name that a descriptor holds.
template <class Ask> CUresult take(void *handle, Ask ask)
{
    const auto name = shareable::name_in(static_cast<int>(reinterpret_cast<intptr_t>(handle)));
    if (!name) return CUDA_ERROR_INVALID_VALUE;
    shared_with_others();
    if (!spanning()) return ask(*name);
    CUresult r = CUDA_ERROR_INVALID_VALUE;
    for (unsigned server = 0; server < server_count() && r == CUDA_ERROR_INVALID_VALUE; server++) {
        At at(server);
        r = ask(*name);
    }
    return r;
}

}  // namespace

namespace own {

CUresult cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags)
{
    if (CUresult r = check(out, type, flags)) return r;
    // No location of the host takes a handle type when it is made.
    if (host_pieces::is_host(handle)) return CUDA_ERROR_INVALID_VALUE;
    At at;
    handle = memory_for_server(handle, at);
    return give(CallId::cuMemExportToShareableHandle, out,
                [&](wire::Writer &w) { w.value(handle), w.value(type), w.value(flags); });
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *handle,
                                        CUmemAllocationHandleType type)
{
    if (CUresult r = check(out, type, 0)) return r;
    return take(handle, [&](const std::string &name) {
        Reply reply;
        CUresult r = session()->ask(
            CallId::cuMemImportFromShareableHandle, current_context(),
            [&](wire::Writer &w) { w.string(name); }, reply);
        if (r) return r;
        wire::Reader answer(reply.body.data(), reply.body.size());
        *out = memory_for_program(answer.value<CUmemGenericAllocationHandle>());
        return answer.at_end() ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
    });
}

CUresult cuMemPoolExportToShareableHandle(void *out, CUmemoryPool pool,
                                          CUmemAllocationHandleType type, unsigned long long flags)
{
    if (CUresult r = check(out, type, flags)) return r;
    if (host_pools::is_host(pool)) return CUDA_ERROR_INVALID_VALUE;
    const auto number = Handles::get().id(pool);
    if (!number || !*number) return CUDA_ERROR_INVALID_HANDLE;
    return give(CallId::cuMemPoolExportToShareableHandle, out,
                [&](wire::Writer &w) { w.value(*number), w.value(type), w.value(flags); });
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *out, void *handle,
                                            CUmemAllocationHandleType type,
                                            unsigned long long flags)
{
    if (CUresult r = check(out, type, flags)) return r;
    return take(handle, [&](const std::string &name) {
        const HandleId id = Handles::get().make(HandleKind::memory_pool, current_context());
        if (!id) return CUDA_ERROR_OUT_OF_MEMORY;
        Unless made([&] { Handles::get().end(id); });
        Reply reply;
        CUresult r = session()->ask(
            CallId::cuMemPoolImportFromShareableHandle, current_context(),
            [&](wire::Writer &w) { w.value(id), w.value(flags), w.string(name); }, reply);
        if (r) return r;
        made.keep();
        *out = Handles::get().handle<CUmemoryPool>(id);
        return CUDA_SUCCESS;
    });
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *out, CUdeviceptr address)
{
    shared_with_others();
    return remote<CallId::cuMemPoolExportPointer>(out, address);
}

CUresult cuMemPoolImportPointer(CUdeviceptr *out, CUmemoryPool pool, CUmemPoolPtrExportData *data)
{
    if (!out || !data) return CUDA_ERROR_INVALID_VALUE;
    shared_with_others();
    CUresult r = remote<CallId::cuMemPoolImportPointer>(out, pool, data);
    if (r) return r;
    CUdeviceptr base = 0;
    size_t bytes = 0;
    if ((r = remote<CallId::cuMemGetAddressRange_v2>(&base, &bytes, *out))) return r;
    note_allocation(base, bytes);
    return CUDA_SUCCESS;
}

}  // namespace own

}  // namespace rgpu::interpose
