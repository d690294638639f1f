// SPDX-License-Identifier: Apache-2.0
// Streams that wait for values in memory, and write them. Memory that the program shares with the
// device may hold them: then its bytes travel when the stream gets there, without a call of the
// program (mirror/flags.cc).
#include <algorithm>

#include "interpose/link/waiting.h"
#include "interpose/mirror/addresses.h"
#include "interpose/mirror/mirror.h"
#include "interpose/span/relay.h"
#include "interpose/stream/callback.h"
#include "interpose/stub/by_hand.h"
#include "interpose/stub/stub.h"

namespace rgpu::interpose {

namespace {

// One operation, whichever call names it.
struct Operation {
    CUdeviceptr address = 0;
    unsigned bytes = 0;  // 0: it has no address
    bool writes = false;
    uint64_t value = 0;
    unsigned flags = 0;  // as the call gives them; with no address: whether it may be refused
};

// A host function makes what the device has written the program's; this one does no more.
void nothing(void *) {}

CUresult check(const Operation &o)
{
    return !o.bytes || (o.address % o.bytes == 0 && is_device_range(o.address, o.bytes))
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

bool in_shared(const Operation &o)
{
    auto b = mirror::find(o.address);
    return o.bytes && b && b->mirrored;
}

// A driver may refuse it, at once: the call waits for that then. All programs' usual ones are
// taken.
bool is_odd(const Operation &o)
{
    constexpr unsigned kWaits = CU_STREAM_WAIT_VALUE_NOR,
                       kWrites = CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER;
    if (!o.bytes) return o.flags;
    if (o.flags & ~(o.writes ? kWrites : kWaits)) return true;
    const auto range = find_device(o.address);
    return !in_shared(o) && (!range || range->no_access);
}

// Posts what `send` posts: the operations, in this order.
template <class Send>
CUresult carry_out(CUstream stream, const Operation *ops, size_t count, Send send)
{
    if (!session()) return not_ready();
    if (!stream)
        if (CUresult r = context_state()) return r;
    for (size_t i = 0; i < count; i++) {
        if (ops[i].bytes)
            if (CUresult r = relay::must_be_here(ops[i].address)) return r;
        if (CUresult r = check(ops[i])) return r;
    }
    HandleId id = 0;
    if (CUresult r = detail::id_in(stream, id)) return r;
    const Waiting odd(std::any_of(ops, ops + count, is_odd));
    const bool here = mirror::active() && !is_captured(id);
    const Operation *in_memory = nullptr;
    bool writes = false;
    for (size_t i = 0; here && i < count; i++)
        if (in_shared(ops[i])) in_memory = ops + i, writes |= ops[i].writes;
    if (!in_memory) return send();
    // What the flag stands for comes before it.
    if (CUresult r = writes ? call_in_stream(stream, nothing, nullptr) : CUDA_SUCCESS) return r;
    {
        mirror::Work work;
        if (CUresult r = work.begin(id)) return r;
        for (size_t i = 0; i < count; i++) {
            if (!in_shared(ops[i])) continue;
            if (ops[i].writes)
                work.flag(ops[i].address, ops[i].bytes);
            else if (CUresult r =
                         work.flag(ops[i].address, ops[i].bytes, ops[i].value, ops[i].flags))
                return r;
        }
        if (CUresult r = send()) return r;
    }
    return writes ? call_in_stream(stream, nothing, nullptr) : CUDA_SUCCESS;
}

CUresult as_operation(const CUstreamBatchMemOpParams &p, Operation &o)
{
    switch (p.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        o = {p.waitValue.address, 4, false, p.waitValue.value, p.waitValue.flags};
        break;
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        o = {p.waitValue.address, 8, false, p.waitValue.value64, p.waitValue.flags};
        break;
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        o = {p.writeValue.address, 4, true, 0, p.writeValue.flags};
        break;
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        o = {p.writeValue.address, 8, true, 0, p.writeValue.flags};
        break;
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES: o.flags = 1; break;  // not every device has it
    case CU_STREAM_MEM_OP_BARRIER: break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

// CUDA Driver API, cuStreamBatchMemOp: less than 256.
constexpr unsigned kMostOperations = 255;

template <class Send>
CUresult batch(CUstream stream, unsigned count, const CUstreamBatchMemOpParams *p, Send send)
{
    if (count > kMostOperations || (count && !p)) return CUDA_ERROR_INVALID_VALUE;
    std::vector<Operation> ops(count);
    for (unsigned i = 0; i < count; i++)
        if (CUresult r = as_operation(p[i], ops[i])) return r;
    return carry_out(stream, ops.data(), ops.size(), send);
}

}  // namespace

namespace own {

#define VALUES(bits, version) \
    CUresult cuStreamWaitValue##bits##version(CUstream stream, CUdeviceptr address, \
                                              cuuint##bits##_t value, unsigned flags) \
    { \
        const Operation o{address, bits / 8, false, value, flags}; \
        return carry_out(stream, &o, 1, [&] { \
            return remote<CallId::cuStreamWaitValue##bits##version>(stream, address, value, \
                                                                    flags); \
        }); \
    } \
    CUresult cuStreamWriteValue##bits##version(CUstream stream, CUdeviceptr address, \
                                               cuuint##bits##_t value, unsigned flags) \
    { \
        const Operation o{address, bits / 8, true, value, flags}; \
        return carry_out(stream, &o, 1, [&] { \
            return remote<CallId::cuStreamWriteValue##bits##version>(stream, address, value, \
                                                                     flags); \
        }); \
    }
VALUES(32, )
VALUES(64, )
VALUES(32, _v2)
VALUES(64, _v2)
#undef VALUES

CUresult cuStreamBatchMemOp(CUstream stream, unsigned count, CUstreamBatchMemOpParams *p,
                            unsigned flags)
{
    const Waiting odd(flags != 0);
    return batch(stream, count, p,
                 [&] { return remote<CallId::cuStreamBatchMemOp>(stream, count, p, flags); });
}
CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned count, CUstreamBatchMemOpParams *p,
                               unsigned flags)
{
    const Waiting odd(flags != 0);
    return batch(stream, count, p,
                 [&] { return remote<CallId::cuStreamBatchMemOp_v2>(stream, count, p, flags); });
}

}  // namespace own

}  // namespace rgpu::interpose
