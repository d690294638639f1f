// SPDX-License-Identifier: Apache-2.0
// Contexts: which one is current is known here, making and ending them is asked of the server.
#include "calls/export_tables.h"
#include "interpose/api/entry.h"
#include "interpose/base/log.h"
#include "interpose/mirror/addresses.h"
#include "interpose/span/relay.h"
#include "interpose/state/client.h"
#include "interpose/state/family.h"
#include "interpose/stream/callback.h"
#include "interpose/stream/pools.h"
#include "interpose/stub/by_hand.h"
#include "interpose/stub/stub.h"

namespace rgpu::interpose {

namespace {

// A device's primary context. Its handle is given out before it is retained (cudart's table does).
struct Primary {
    HandleId id = 0;
    unsigned retained = 0;
    unsigned retained_there = 0;  // calls that the server saw
    bool reset = false;           // and not retained since: only that makes it usable again
    unsigned flags = 0;
};

struct Primaries {
    std::mutex mutex;
    std::vector<Primary> of;  // by device

    Primary &at(CUdevice d)
    {
        if (of.size() <= static_cast<size_t>(d)) of.resize(static_cast<size_t>(d) + 1);
        Primary &p = of[static_cast<size_t>(d)];
        if (!p.id) {
            p.id = Handles::get().make(HandleKind::context);
            if (!p.id) return p;
            Handles::get().at(p.id)->device = d;
            Handles::get().at(p.id)->server = static_cast<uint8_t>(server_of(d));
        }
        return p;
    }
};

Primaries &primaries() { return client_part<Primaries>(Part::primary_contexts); }

// Its number stays good for making it current, and for retaining it again; until then it is a
// context that is destroyed.
void end_primary(HandleId id)
{
    Handles::get().at(id)->done = true;
    end_made_in(id);
}

CUcontext as_context(HandleId id) { return Handles::get().handle<CUcontext>(id); }

// Before a context ends with what is in its streams: the server's driver waits for host functions,
// and the server then hears nobody who says that they are over.
void let_functions_end(HandleId context)
{
    relay::settle();
    if (!any_function_under_way()) return;
    Reply none;
    (void)session()->ask(
        CallId::cuCtxSynchronize, context, [](wire::Writer &) {}, none);
}

CUresult primary_handle(CUcontext *out, CUdevice d)
{
    if (!session()) return not_ready();
    if (!device(d)) return CUDA_ERROR_INVALID_DEVICE;
    std::lock_guard lock(primaries().mutex);
    *out = as_context(primaries().at(d).id);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUcontext current_for_tables() { return as_context(current_context()); }

CUresult device_pci(int *domain, int *bus, int *dev, CUdevice d)
{
    CUresult r = own::cuDeviceGetAttribute(domain, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, d);
    if (!r) r = own::cuDeviceGetAttribute(bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, d);
    return r ? r : own::cuDeviceGetAttribute(dev, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, d);
}

// The slot of the calling thread's context, or null.
Slot *current_slot()
{
    HandleId id = current_context();
    return id ? Handles::get().at(id) : nullptr;
}

// A device's stream priorities. Programs ask for them when they have their context: the question
// goes with that for it.
struct Priorities {
    std::mutex mutex;
    struct Range {
        bool known = false;
        int least = 0, greatest = 0;
    };
    std::vector<Range> of = std::vector<Range>(static_cast<size_t>(device_count()));

    static void question(wire::Writer &w) { w.value(uint8_t{1}), w.value(uint8_t{1}); }
    void learn(CUdevice d, const Reply &reply)
    {
        wire::Reader r(reply.body.data(), reply.body.size());
        Range range{true, r.value<int>(), r.value<int>()};
        std::lock_guard lock(mutex);
        if (!reply.result && r.ok()) of[static_cast<size_t>(d)] = range;
    }
    Range get(CUdevice d)
    {
        std::lock_guard lock(mutex);
        return of[static_cast<size_t>(d)];
    }
};

Priorities &priorities() { return client_part<Priorities>(Part::stream_priorities); }

// After a context was made on the server: it is the calling thread's current one.
CUresult made(CUcontext context, unsigned flags, CUdevice d)
{
    Slot *s = Handles::get().slot(context);
    s->flags = flags;
    s->device = d;
    push_context(*Handles::get().id(context));
    return CUDA_SUCCESS;
}

}  // namespace

namespace own {

CUresult cuGetExportTable(const void **table, const CUuuid *id)
{
    static const bool once = [] {
        calls::DriverFacts facts;
        facts.driver_version = driver_version();
        facts.current_context = current_for_tables;
        facts.primary_context = guarded<primary_handle>;
        facts.device_count = device_count;
        facts.device_uuid = guarded<own::cuDeviceGetUuid_v2>;
        facts.device_pci = guarded<device_pci>;
        facts.function_count =
            guarded<&remote<CallId::cuModuleGetFunctionCount, unsigned *, CUmodule>>;
        facts.functions = guarded<own::cuModuleEnumerateFunctions>;
        facts.load_module = entry<CallId::cuModuleLoadData>();
        facts.unknown_slot = [](const char *table, unsigned slot) {
            say("slot %u of the private table \"%s\" is not known: it answers "
                "CUDA_ERROR_NOT_SUPPORTED",
                slot, table);
        };
        calls::set_driver_facts(facts);
        return true;
    }();
    (void)once;
    return calls::get_export_table(table, id);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice d)
{
    if (!session()) return not_ready();
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    if (!device(d)) return CUDA_ERROR_INVALID_DEVICE;
    std::lock_guard lock(primaries().mutex);
    Primary &p = primaries().at(d);
    if (!p.id) return CUDA_ERROR_OUT_OF_MEMORY;
    if (p.retained == 0 || p.reset) {
        Ahead &retaining = client_part<Ahead>(Part::primary_retained);
        Reply reply, range;
        // Outside any context: cudart makes the primary context current before it retains it.
        const auto body = [&](wire::Writer &w) { w.value(p.id), w.value(to_wire(d)); };
        CUresult r;
        if (!priorities().get(d).known && session()->ask_ahead(CallId::cuDevicePrimaryCtxRetain,
                                                               calls::kNoHandle, body, retaining)) {
            // The answer to the retain is under way, and is taken whatever becomes of the question.
            guard("cuDevicePrimaryCtxRetain", [&] {
                return session()->ask(CallId::cuCtxGetStreamPriorityRange, p.id,
                                      Priorities::question, range);
            });
            priorities().learn(d, range);
            r = session()->take_ahead(retaining, reply);
        } else {
            r = session()->ask(CallId::cuDevicePrimaryCtxRetain, calls::kNoHandle, body, reply);
        }
        if (r) return r;
        p.retained_there++;
        p.reset = false;
    }
    p.retained++;
    Handles::get().at(p.id)->flags = p.flags;
    Handles::get().at(p.id)->done = false;
    *out = as_context(p.id);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice d)
{
    if (!session()) return not_ready();
    if (!device(d)) return CUDA_ERROR_INVALID_DEVICE;
    HandleId last = calls::kNoHandle;
    {
        std::lock_guard lock(primaries().mutex);
        if (const Primary &p = primaries().at(d); p.retained == 1) last = p.id;
    }
    if (last) let_functions_end(last);
    std::lock_guard lock(primaries().mutex);
    Primary &p = primaries().at(d);
    if (p.retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (p.retained > 1) return p.retained--, CUDA_SUCCESS;
    pools::context_ends(p.id);
    p.retained = 0;
    forget_allocations(p.id);
    CUresult r = CUDA_SUCCESS;
    for (; p.retained_there && !r; p.retained_there--)
        r = remote<CallId::cuDevicePrimaryCtxRelease_v2>(d);
    if (!r) end_primary(p.id);
    return r;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice d) { return own::cuDevicePrimaryCtxRelease_v2(d); }

CUresult cuDevicePrimaryCtxReset_v2(CUdevice d)
{
    if (!session()) return not_ready();
    if (!device(d)) return CUDA_ERROR_INVALID_DEVICE;
    HandleId id;
    {
        std::lock_guard lock(primaries().mutex);
        primaries().at(d).reset = true;
        id = primaries().at(d).id;
    }
    let_functions_end(id);
    calls::forget_context_storage(as_context(id));
    pools::context_ends(id);
    forget_allocations(id);
    CUresult r = remote<CallId::cuDevicePrimaryCtxReset_v2>(d);
    if (!r) end_primary(id);
    return r;
}
CUresult cuDevicePrimaryCtxReset(CUdevice d) { return own::cuDevicePrimaryCtxReset_v2(d); }

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice d, unsigned int flags)
{
    CUresult r = remote<CallId::cuDevicePrimaryCtxSetFlags_v2>(d, flags);
    if (r) return r;
    std::lock_guard lock(primaries().mutex);
    Primary &p = primaries().at(d);
    p.flags = flags;
    Handles::get().at(p.id)->flags = flags;
    return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxSetFlags(CUdevice d, unsigned int flags)
{
    return own::cuDevicePrimaryCtxSetFlags_v2(d, flags);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice d, unsigned int *flags, int *active)
{
    if (!session()) return not_ready();
    if (!device(d)) return CUDA_ERROR_INVALID_DEVICE;
    if (!flags || !active) return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard lock(primaries().mutex);
    const Primary &p = primaries().at(d);
    *flags = p.flags;
    *active = p.retained > 0;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    if (!session()) return not_ready();
    if (CUresult r = context_state()) return r;
    const CUdevice d = current_device();
    Priorities::Range range = priorities().get(d);
    if (!range.known) {
        Reply reply;
        CUresult r = session()->ask(CallId::cuCtxGetStreamPriorityRange, current_context(),
                                    Priorities::question, reply);
        if (r) return r;
        priorities().learn(d, reply);
        range = priorities().get(d);
    }
    if (least) *least = range.least;
    if (greatest) *greatest = range.greatest;
    return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v2(CUcontext *out, unsigned int flags, CUdevice d)
{
    CUresult r = remote<CallId::cuCtxCreate_v2>(out, flags, d);
    return r ? r : made(*out, flags, d);
}
CUresult cuCtxCreate(CUcontext *out, unsigned int flags, CUdevice d)
{
    return own::cuCtxCreate_v2(out, flags, d);
}
CUresult cuCtxCreate_v3(CUcontext *out, CUexecAffinityParam *, int affinities, unsigned int flags,
                        CUdevice d)
{
    return affinities ? CUDA_ERROR_NOT_SUPPORTED : own::cuCtxCreate_v2(out, flags, d);
}
#if CUDA_VERSION >= 12050
CUresult cuCtxCreate_v4(CUcontext *out, CUctxCreateParams *params, unsigned int flags, CUdevice d)
{
    const bool plain = !params || (!params->numExecAffinityParams && !params->cigParams);
    return plain ? own::cuCtxCreate_v2(out, flags, d) : CUDA_ERROR_NOT_SUPPORTED;
}
#endif

CUresult cuCtxDestroy_v2(CUcontext context)
{
    auto id = Handles::get().id(context);
    if (!id || !*id) return CUDA_ERROR_INVALID_CONTEXT;
    let_functions_end(*id);
    CUresult r = remote<CallId::cuCtxDestroy_v2>(context);
    if (r) return r;
    calls::forget_context_storage(context);
    pools::forget_context(*id);
    forget_allocations(*id);
    end_made_in(*id);
    forget_context(*id);
    return CUDA_SUCCESS;
}
CUresult cuCtxDestroy(CUcontext context) { return own::cuCtxDestroy_v2(context); }

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    if (!session()) return not_ready();
    auto id = Handles::get().id(context);
    if (!id || !*id) return CUDA_ERROR_INVALID_CONTEXT;
    push_context(*id);
    return CUDA_SUCCESS;
}
CUresult cuCtxPushCurrent(CUcontext context) { return own::cuCtxPushCurrent_v2(context); }

CUresult cuCtxPopCurrent_v2(CUcontext *out)
{
    if (!session()) return not_ready();
    HandleId id = pop_context();
    if (!id) return CUDA_ERROR_INVALID_CONTEXT;
    if (out) *out = as_context(id);
    return CUDA_SUCCESS;
}
CUresult cuCtxPopCurrent(CUcontext *out) { return own::cuCtxPopCurrent_v2(out); }

CUresult cuCtxSetCurrent(CUcontext context)
{
    if (!session()) return not_ready();
    auto id = Handles::get().id(context);
    if (!id) return CUDA_ERROR_INVALID_CONTEXT;
    set_current(*id);
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *out)
{
    if (!session()) return not_ready();
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = as_context(current_context());
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *out)
{
    if (!session()) return not_ready();
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    if (!current_slot()) return CUDA_ERROR_INVALID_CONTEXT;
    *out = current_device();
    return CUDA_SUCCESS;
}

#if CUDA_VERSION >= 13000
CUresult cuCtxGetDevice_v2(CUdevice *out, CUcontext context)
{
    if (!context) return own::cuCtxGetDevice(out);
    if (!session()) return not_ready();
    Slot *s = Handles::get().slot(context);
    if (!s) return CUDA_ERROR_INVALID_CONTEXT;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = s->device;
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize_v2(CUcontext context)
{
    if (!context) return own::cuCtxSynchronize();
    CUresult r = own::cuCtxPushCurrent_v2(context);
    if (r) return r;
    r = own::cuCtxSynchronize();
    pop_context();
    return r;
}
#endif

CUresult cuCtxGetFlags(unsigned int *flags)
{
    if (!session()) return not_ready();
    if (CUresult r = context_state()) return r;
    if (!flags) return CUDA_ERROR_INVALID_VALUE;
    *flags = current_slot()->flags;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext context, unsigned long long *out)
{
    if (!session()) return not_ready();
    auto id = context ? Handles::get().id(context) : std::optional(current_context());
    if (!id || !*id) return CUDA_ERROR_INVALID_CONTEXT;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = *id;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext context, unsigned int *version)
{
    if (!session()) return not_ready();
    auto id = context ? Handles::get().id(context) : std::optional(current_context());
    if (!id || !*id) return CUDA_ERROR_INVALID_CONTEXT;
    if (!version) return CUDA_ERROR_INVALID_VALUE;
    *version = 3020;  // what drivers answer for contexts of the v2 and later interfaces
    return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
    const Slot *s = Handles::get().slot(peer);
    if (session() && s && !is_here(*Handles::get().id(peer)))
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    return remote<CallId::cuCtxEnablePeerAccess>(peer, flags);
}
CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
    const Slot *s = Handles::get().slot(peer);
    if (session() && s && !is_here(*Handles::get().id(peer)))
        return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    return remote<CallId::cuCtxDisablePeerAccess>(peer);
}

// On hardware with a fixed or automatic split these are hints; they change nothing that can be
// seen.
CUresult cuCtxGetCacheConfig(CUfunc_cache *config)
{
    if (!session()) return not_ready();
    if (!current_slot()) return CUDA_ERROR_INVALID_CONTEXT;
    if (!config) return CUDA_ERROR_INVALID_VALUE;
    *config = CU_FUNC_CACHE_PREFER_NONE;
    return CUDA_SUCCESS;
}
CUresult cuCtxSetCacheConfig(CUfunc_cache config)
{
    if (!session()) return not_ready();
    if (CUresult r = context_state()) return r;
    return config <= CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace own

}  // namespace rgpu::interpose
