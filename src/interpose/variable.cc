// Variables of modules and libraries, device and managed ones, and what goes when their owner is unloaded.
//
// Body of a look-up: number of the module or library, name. Answer: address, bytes (8 bytes each), managed (1).
#include "interpose/family.h"
#include "interpose/memory.h"
#include "interpose/own.h"
#include "interpose/shared.h"
#include "interpose/stub.h"

namespace rgpu::interpose::own {

namespace {

template <class Owner> CUresult find(CallId id, CUdeviceptr *address, size_t *bytes, Owner owner, const char *name)
{
    if (!session()) return not_ready();
    if (!name || (!address && !bytes)) return CUDA_ERROR_INVALID_VALUE;
    auto in = Handles::get().id(owner);
    if (!in || !*in) return CUDA_ERROR_INVALID_HANDLE;
    Reply reply;
    CUresult r = session()->ask(id, current_context(), [&](wire::Writer &w) { w.value(*in), w.string(name); }, reply);
    if (r) return r;
    wire::Reader answer(reply.body.data(), reply.body.size());
    const auto a = answer.value<uint64_t>(), n = answer.value<uint64_t>();
    const bool managed = answer.value<uint8_t>();
    if (!answer.at_end()) return CUDA_ERROR_UNKNOWN;
    if (!find_device(a)) {
        if (managed && (r = shared::adopt(a, n, *in))) return r;
        managed ? note_managed(a, n) : note_allocation(a, n);
    }
    if (address) *address = a;
    if (bytes) *bytes = n;
    return CUDA_SUCCESS;
}

// The functions that were found in it end with it, here and on the server.
template <CallId Unload, class Owner> CUresult unload(Owner owner)
{
    const HandleId id = session() ? Handles::get().id(owner).value_or(0) : 0;
    if (!id) return remote<Unload>(owner);
    if (shared::any()) shared::forget_owner(id);
    const std::vector<HandleId> parts = take_parts(id);
    CUresult r = remote<Unload>(owner);
    end_parts(parts);
    return r;
}

}  // namespace

CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name)
{
    return find(CallId::cuModuleGetGlobal_v2, address, bytes, module, name);
}
CUresult cuLibraryGetManaged(CUdeviceptr *address, size_t *bytes, CUlibrary library, const char *name)
{
    return find(CallId::cuLibraryGetManaged, address, bytes, library, name);
}

CUresult cuModuleUnload(CUmodule module) { return unload<CallId::cuModuleUnload>(module); }
CUresult cuLibraryUnload(CUlibrary library) { return unload<CallId::cuLibraryUnload>(library); }

}  // namespace rgpu::interpose::own
