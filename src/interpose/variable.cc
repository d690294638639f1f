// Variables of modules and libraries, device and managed ones, and what goes when their owner is unloaded.
//
// Body of a look-up: number of the module or library, name. Answer: address, bytes (8 bytes each), managed (1).
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

template <class Owner> void forget(Owner owner)
{
    if (!shared::any()) return;
    if (auto id = Handles::get().id(owner)) shared::forget_owner(*id);
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

CUresult cuModuleUnload(CUmodule module)
{
    forget(module);
    return remote<CallId::cuModuleUnload>(module);
}
CUresult cuLibraryUnload(CUlibrary library)
{
    forget(library);
    return remote<CallId::cuLibraryUnload>(library);
}

}  // namespace rgpu::interpose::own
