// SPDX-License-Identifier: Apache-2.0
// Variables of modules and libraries, device and managed ones, and what goes when their owner is
// unloaded.
//
// Bodies: wire/module_bodies.h.
#include <map>

#include "interpose/base/log.h"
#include "interpose/code/function_info.h"
#include "interpose/graph/kernel_updates.h"
#include "interpose/mirror/mirror.h"
#include "interpose/state/client.h"
#include "interpose/state/family.h"
#include "interpose/state/ranges.h"
#include "interpose/stub/by_hand.h"
#include "interpose/stub/stub.h"
#include "wire/module_bodies.h"

namespace rgpu::interpose {

namespace {

// Libraries with managed variables, which are one server's.
struct ManagedIn {
    std::mutex mutex;
    std::map<HandleId, std::pair<uint32_t, unsigned>> server;  // by library: its stamp, the server
};
ManagedIn &managed_in() { return client_part<ManagedIn>(Part::managed_variables); }

}  // namespace

CUresult may_run_here(HandleId library)
{
    // A kernel's function is the kernel's.
    if (const Slot *s = Handles::get().at(library); s->kind.load() == HandleKind::kernel)
        library = s->parent;
    std::lock_guard lock(managed_in().mutex);
    const auto it = managed_in().server.find(library);
    if (it == managed_in().server.end() || it->second.first != Handles::get().at(library)->stamp ||
        it->second.second == here())
        return CUDA_SUCCESS;
    static std::atomic<bool> said{false};
    if (!said.exchange(true))
        say("code with __managed__ variables runs on GPUs of server %s only, where the variables "
            "are, and not on those of %s: use "
            "__device__ variables, or ask for GPUs of one server (without --rgpu-span)",
            session_at(it->second.second)->server().c_str(), session()->server().c_str());
    return CUDA_ERROR_NOT_SUPPORTED;
}

namespace own {

namespace {

template <class Owner> CUresult find(calls::SentCall id, CUdeviceptr *address, size_t *bytes,
                                     Owner owner, const char *name)
{
    if (!session()) return not_ready();
    if (!name || (!address && !bytes)) return CUDA_ERROR_INVALID_VALUE;
    auto in = Handles::get().id(owner);
    if (!in || !*in) return CUDA_ERROR_INVALID_HANDLE;
    Reply reply;
    CUresult r = session()->ask(
        id, current_context(),
        [&](wire::Writer &w) {
            wire::VariableLookUp{*in, name}.write(w);
        },
        reply);
    if (r) return r;
    wire::Reader answer(reply.body.data(), reply.body.size());
    const auto [a, n, managed] = wire::Variable::read(answer);
    if (!answer.at_end()) return CUDA_ERROR_UNKNOWN;
    if (!is_known_here(a)) {
        if (managed && (r = mirror::adopt(a, n, *in))) return r;
        managed ? note_managed(a, n) : note_allocation(a, n);
        if (managed && spanning()) {
            std::lock_guard lock(managed_in().mutex);
            managed_in().server[*in] = {Handles::get().at(*in)->stamp, here()};
        }
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
    if (mirror::any()) mirror::forget_owner(id);
    forget_all_updates();
    const std::vector<HandleId> parts = take_parts(id);
    const bool everywhere = spanning() && Handles::get().at(id)->server == kEverywhere;
    const uint32_t refused = Handles::get().at(id)->flags;
    for (unsigned s = 0; everywhere && s < server_count(); s++)
        if (s != here() && !(refused >> s & 1))
            session_at(s)->post(Unload, calls::kNoHandle, [id](wire::Writer &w) { w.value(id); });
    CUresult r = remote<Unload>(owner);
    end_parts(parts);
    return r;
}

}  // namespace

CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module,
                              const char *name)
{
    return find(CallId::cuModuleGetGlobal_v2, address, bytes, module, name);
}
CUresult cuLibraryGetManaged(CUdeviceptr *address, size_t *bytes, CUlibrary library,
                             const char *name)
{
    return find(CallId::cuLibraryGetManaged, address, bytes, library, name);
}

CUresult cuModuleUnload(CUmodule module) { return unload<CallId::cuModuleUnload>(module); }
CUresult cuLibraryUnload(CUlibrary library) { return unload<CallId::cuLibraryUnload>(library); }

}  // namespace own

}  // namespace rgpu::interpose
