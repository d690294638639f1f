// Attributes of memory pools and of graphs' memory: pointers to an int or a 64-bit number, by the
// attribute.
//
// Body: number of the pool (or the device), attribute, and (set) the value as 8 bytes. Answer of
// get: 8 bytes.
#include "interpose/stub/by_hand.h"
#include "interpose/stub/stub.h"

namespace rgpu::interpose {

namespace {

size_t value_bytes(CUmemPool_attribute a)
{
    switch (a) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: return sizeof(int);
    default: return sizeof(cuuint64_t);
    }
}

CUresult take_value(const Reply &reply, uint64_t &value)
{
    wire::Reader answer(reply.body.data(), reply.body.size());
    value = answer.value<uint64_t>();
    return answer.at_end() ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

CUresult ask(calls::SentCall id, CUmemoryPool pool, CUmemPool_attribute attribute, uint64_t *value,
             bool set)
{
    if (!session()) return not_ready();
    auto number = Handles::get().id(pool);
    if (!number || !*number) return CUDA_ERROR_INVALID_HANDLE;
    Reply reply;
    CUresult r = session()->ask(
        id, current_context(),
        [&](wire::Writer &w) {
            w.value(*number), w.value(static_cast<uint32_t>(attribute));
            if (set) w.value(*value);
        },
        reply);
    return r || set ? r : take_value(reply, *value);
}

CUresult ask_graph_memory(calls::SentCall id, CUdevice device, CUgraphMem_attribute attribute,
                          void *value, bool set)
{
    if (!session()) return not_ready();
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    Reply reply;
    CUresult r = session()->ask(
        id, current_context(),
        [&](wire::Writer &w) {
            w.value(to_wire(device)), w.value(static_cast<uint32_t>(attribute));
            if (set) w.value(*static_cast<cuuint64_t *>(value));
        },
        reply);
    uint64_t got = 0;
    if (!r && !set && !(r = take_value(reply, got))) *static_cast<cuuint64_t *>(value) = got;
    return r;
}

}  // namespace

namespace own {

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
    return ask_graph_memory(CallId::cuDeviceGetGraphMemAttribute, device, attribute, value, false);
}

CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
    return ask_graph_memory(CallId::cuDeviceSetGraphMemAttribute, device, attribute, value, true);
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    uint64_t number = 0;
    memcpy(&number, value, value_bytes(attribute));
    return ask(CallId::cuMemPoolSetAttribute, pool, attribute, &number, true);
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    uint64_t number = 0;
    CUresult r = ask(CallId::cuMemPoolGetAttribute, pool, attribute, &number, false);
    if (!r) memcpy(value, &number, value_bytes(attribute));
    return r;
}

}  // namespace own

}  // namespace rgpu::interpose
