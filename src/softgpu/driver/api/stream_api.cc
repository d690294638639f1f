// SPDX-License-Identifier: Apache-2.0
// Streams and events: CUDA Driver API, "Stream Management", "Event Management", "Stream Memory
// Operations".
#include <algorithm>

#include "softgpu/driver/api/export.h"
#include "softgpu/driver/base/printing.h"
#include "softgpu/driver/graph/capture.h"
#include "softgpu/driver/graph/node_work.h"
#include "softgpu/driver/state/context.h"
#include "softgpu/driver/state/current.h"
#include "softgpu/driver/state/driver.h"
#include "softgpu/driver/state/event.h"
#include "softgpu/driver/state/memory_op.h"
#include "softgpu/driver/state/stream.h"

namespace rgpu::softgpu::driver {

namespace {

// --- streams

CUresult create_with_priority(CUstream *stream, unsigned flags, int priority)
{
    Context *c;
    if (CUresult rc = usable_context(c)) return rc;
    if (!stream || flags & ~CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
    auto s = c->streams.create(flags, std::clamp(priority, kGreatestPriority, kLeastPriority));
    *stream = driver().streams.add(s);
    return CUDA_SUCCESS;
}

CUresult create(CUstream *stream, unsigned flags) { return create_with_priority(stream, flags, 0); }

// Work that is in it goes on: the scheduler has it.
CUresult destroy(CUstream handle)
{
    auto s = driver().streams.remove(handle);
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    forget_capture(*s);
    s->context.streams.remove(s.get());
    return CUDA_SUCCESS;
}

CUresult synchronize(CUstream handle)
{
    std::shared_ptr<Stream> s;
    if (CUresult rc = find_stream(handle, s)) return rc;
    if (CUresult rc = may_work(*s)) return rc;
    return s->synchronize();
}

CUresult query(CUstream handle)
{
    std::shared_ptr<Stream> s;
    if (CUresult rc = find_stream(handle, s)) return rc;
    if (CUresult rc = may_work(*s)) return rc;
    if (!s->idle()) return CUDA_ERROR_NOT_READY;
    flush_prints();
    return s->context.error();
}

CUresult get_flags(CUstream handle, unsigned *flags)
{
    std::shared_ptr<Stream> s;
    if (CUresult rc = find_stream(handle, s)) return rc;
    if (!flags) return CUDA_ERROR_INVALID_VALUE;
    *flags = s->flags;
    return CUDA_SUCCESS;
}

CUresult get_priority(CUstream handle, int *priority)
{
    std::shared_ptr<Stream> s;
    if (CUresult rc = find_stream(handle, s)) return rc;
    if (!priority) return CUDA_ERROR_INVALID_VALUE;
    *priority = s->priority;
    return CUDA_SUCCESS;
}

CUresult get_id(CUstream handle, unsigned long long *id)
{
    std::shared_ptr<Stream> s;
    if (CUresult rc = find_stream(handle, s)) return rc;
    if (!id) return CUDA_ERROR_INVALID_VALUE;
    *id = s->id;
    return CUDA_SUCCESS;
}

CUresult get_context(CUstream handle, CUcontext *context)
{
    std::shared_ptr<Stream> s;
    if (CUresult rc = find_stream(handle, s)) return rc;
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    *context = s->context.handle();
    return CUDA_SUCCESS;
}

CUresult get_context_v2(CUstream handle, CUcontext *context, CUgreenCtx *green)
{
    if (green) *green = nullptr;
    return get_context(handle, context);
}

CUresult get_device(CUstream handle, CUdevice *device)
{
    std::shared_ptr<Stream> s;
    if (CUresult rc = find_stream(handle, s)) return rc;
    if (!device) return CUDA_ERROR_INVALID_VALUE;
    *device = s->context.device.index;
    return CUDA_SUCCESS;
}

CUresult add_callback(CUstream handle, CUstreamCallback callback, void *data, unsigned flags)
{
    std::shared_ptr<Stream> s;
    if (CUresult rc = find_stream(handle, s)) return rc;
    if (!callback || flags) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult rc = may_work(*s)) return rc;
    s->enqueue([callback, handle, data] { callback(handle, CUDA_SUCCESS, data); });
    return CUDA_SUCCESS;
}

CUresult wait_event(CUstream handle, CUevent event, unsigned flags)
{
    std::shared_ptr<Stream> s;
    if (CUresult rc = find_stream(handle, s)) return rc;
    auto e = driver().events.find(event);
    if (!e) return CUDA_ERROR_INVALID_HANDLE;
    if (flags & ~CU_EVENT_WAIT_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
    bool captured = false;
    if (CUresult rc = capture_wait(s, event, *e, flags, captured); rc || captured) return rc;
    if (CUresult rc = may_work(*s)) return rc;
    if (e->shared)
        s->enqueue([shared = e->shared, number = e->shared->newest()] { shared->wait(number); });
    else if (TaskRef t = e->task())
        s->enqueue([] {}, {t});
    return CUDA_SUCCESS;
}

// --- events

CUresult event_create(CUevent *event, unsigned flags)
{
    constexpr unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING |
                               CU_EVENT_INTERPROCESS;
    Context *c;
    if (CUresult rc = usable_context(c)) return rc;
    if (!event || flags & ~known) return CUDA_ERROR_INVALID_VALUE;
    auto made = std::make_shared<Event>(*c, flags);
    if (flags & CU_EVENT_INTERPROCESS) {
        if (!(flags & CU_EVENT_DISABLE_TIMING)) return CUDA_ERROR_INVALID_VALUE;
        auto shared = SharedEvent::create();
        if (!shared) return CUDA_ERROR_OUT_OF_MEMORY;
        made->shared = std::move(*shared);
    }
    *event = driver().events.add(made);
    return CUDA_SUCCESS;
}

CUresult event_destroy(CUevent event)
{
    return driver().events.remove(event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult event_record_with_flags(CUevent event, CUstream handle, unsigned flags)
{
    std::shared_ptr<Stream> s;
    if (CUresult rc = find_stream(handle, s)) return rc;
    auto e = driver().events.find(event);
    if (!e || &e->context != &s->context) return CUDA_ERROR_INVALID_HANDLE;
    if (flags & ~CU_EVENT_RECORD_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
    if (s->capturing) return capture_record(*s, event, *e, flags);
    if (CUresult rc = may_work(*s)) return rc;
    forget_capture(*e);
    e->record(*s);
    return CUDA_SUCCESS;
}

CUresult event_record(CUevent event, CUstream stream)
{
    return event_record_with_flags(event, stream, 0);
}

CUresult event_query(CUevent event)
{
    auto e = driver().events.find(event);
    if (!e) return CUDA_ERROR_INVALID_HANDLE;
    if (CUresult rc = may_ask(*e)) return rc;
    if (CUresult rc = may_call_unsafe()) return rc;
    if (!e->passed()) return CUDA_ERROR_NOT_READY;
    flush_prints();
    return e->context.error();
}

CUresult event_synchronize(CUevent event)
{
    auto e = driver().events.find(event);
    if (!e) return CUDA_ERROR_INVALID_HANDLE;
    if (CUresult rc = may_ask(*e)) return rc;
    e->wait();
    flush_prints();
    return e->context.error();
}

CUresult event_elapsed(float *milliseconds, CUevent start, CUevent end)
{
    auto from = driver().events.find(start), to = driver().events.find(end);
    if (!from || !to) return CUDA_ERROR_INVALID_HANDLE;
    for (Event *e : {from.get(), to.get()})
        if (CUresult rc = may_ask(*e)) return rc;
    return milliseconds ? to->since(*from, *milliseconds) : CUDA_ERROR_INVALID_VALUE;
}

// --- waiting for and writing values in memory

// In order; all or none.
CUresult batch_mem_op(CUstream handle, unsigned count, CUstreamBatchMemOpParams *p, unsigned flags)
{
    std::shared_ptr<Stream> s;
    if (CUresult rc = find_stream(handle, s)) return rc;
    if ((count && !p) || count > kMostMemoryOps || flags) return CUDA_ERROR_INVALID_VALUE;
    std::vector<CUstreamBatchMemOpParams> operations(p, p + count);
    for (const auto &o : operations)
        if (CUresult rc = check(o)) return rc;
    if (s->capturing) return capture_work(*s, memory_op_work(s->context, std::move(operations)));
    if (CUresult rc = may_work(*s)) return rc;
    for (const auto &o : operations) s->enqueue([o] { perform(o); });
    return CUDA_SUCCESS;
}

template <CUstreamBatchMemOpType type, class Value>
CUresult wait_value(CUstream stream, CUdeviceptr address, Value wanted, unsigned how)
{
    CUstreamBatchMemOpParams p{};
    p.waitValue.operation = type;
    p.waitValue.address = address;
    p.waitValue.value64 = wanted;
    p.waitValue.flags = how;
    return batch_mem_op(stream, 1, &p, 0);
}

template <CUstreamBatchMemOpType type, class Value>
CUresult write_value(CUstream stream, CUdeviceptr address, Value value, unsigned flags)
{
    CUstreamBatchMemOpParams p{};
    p.writeValue.operation = type;
    p.writeValue.address = address;
    p.writeValue.value64 = value;
    p.writeValue.flags = flags;
    return batch_mem_op(stream, 1, &p, 0);
}

constexpr auto wait_value_32 = wait_value<CU_STREAM_MEM_OP_WAIT_VALUE_32, cuuint32_t>;
constexpr auto wait_value_64 = wait_value<CU_STREAM_MEM_OP_WAIT_VALUE_64, cuuint64_t>;
constexpr auto write_value_32 = write_value<CU_STREAM_MEM_OP_WRITE_VALUE_32, cuuint32_t>;
constexpr auto write_value_64 = write_value<CU_STREAM_MEM_OP_WRITE_VALUE_64, cuuint64_t>;

RGPU_EXPORT(cuStreamCreate, create)
RGPU_EXPORT(cuStreamCreateWithPriority, create_with_priority)
RGPU_EXPORT(cuStreamDestroy, destroy)
RGPU_EXPORT(cuStreamDestroy_v2, destroy)
RGPU_EXPORT_PTSZ(cuStreamSynchronize, synchronize)
RGPU_EXPORT_PTSZ(cuStreamQuery, query)
RGPU_EXPORT_PTSZ(cuStreamGetFlags, get_flags)
RGPU_EXPORT_PTSZ(cuStreamGetPriority, get_priority)
RGPU_EXPORT_PTSZ(cuStreamGetId, get_id)
RGPU_EXPORT_PTSZ(cuStreamGetCtx, get_context)
RGPU_EXPORT_PTSZ(cuStreamGetCtx_v2, get_context_v2)
RGPU_EXPORT_PTSZ(cuStreamGetDevice, get_device)
RGPU_EXPORT_PTSZ(cuStreamAddCallback, add_callback)
RGPU_EXPORT_PTSZ(cuStreamWaitEvent, wait_event)
RGPU_EXPORT(cuEventCreate, event_create)
RGPU_EXPORT(cuEventDestroy, event_destroy)
RGPU_EXPORT(cuEventDestroy_v2, event_destroy)
RGPU_EXPORT_PTSZ(cuEventRecord, event_record)
RGPU_EXPORT_PTSZ(cuEventRecordWithFlags, event_record_with_flags)
RGPU_EXPORT(cuEventQuery, event_query)
RGPU_EXPORT(cuEventSynchronize, event_synchronize)
RGPU_EXPORT(cuEventElapsedTime, event_elapsed)
RGPU_EXPORT(cuEventElapsedTime_v2, event_elapsed)
RGPU_EXPORT_PTSZ(cuStreamWaitValue32_v2, wait_value_32)
RGPU_EXPORT_PTSZ(cuStreamWaitValue64_v2, wait_value_64)
RGPU_EXPORT_PTSZ(cuStreamWriteValue32_v2, write_value_32)
RGPU_EXPORT_PTSZ(cuStreamWriteValue64_v2, write_value_64)
RGPU_EXPORT_PTSZ(cuStreamBatchMemOp_v2, batch_mem_op)

}  // namespace

}  // namespace rgpu::softgpu::driver
