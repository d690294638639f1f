// Streams and events: CUDA Driver API, "Stream Management", "Event Management", "Stream Memory
// Operations".
#include <algorithm>
#include <atomic>
#include <thread>

#include "softgpu/driver/api/export.h"
#include "softgpu/driver/base/printing.h"
#include "softgpu/driver/graph/capture.h"
#include "softgpu/driver/state/context.h"
#include "softgpu/driver/state/current.h"
#include "softgpu/driver/state/driver.h"
#include "softgpu/driver/state/event.h"
#include "softgpu/driver/state/memory.h"
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

template <class Value> bool reached(Value seen, Value wanted, unsigned how)
{
    switch (how & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ:
        return static_cast<std::make_signed_t<Value>>(seen - wanted) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ: return seen == wanted;
    case CU_STREAM_WAIT_VALUE_AND: return seen & wanted;
    default: return ~(seen | wanted);
    }
}

// CAN_FLUSH_REMOTE_WRITES is 0.
CUresult check_wait(unsigned flags)
{
    if (flags & CU_STREAM_WAIT_VALUE_FLUSH) return CUDA_ERROR_NOT_SUPPORTED;
    return flags & ~unsigned{CU_STREAM_WAIT_VALUE_NOR} ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult check_write(unsigned flags)
{
    return flags & ~unsigned{CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER} ? CUDA_ERROR_INVALID_VALUE
                                                                      : CUDA_SUCCESS;
}

template <class Value>
CUresult wait_value(CUstream handle, CUdeviceptr address, Value wanted, unsigned how)
{
    std::shared_ptr<Stream> s;
    if (CUresult rc = find_stream(handle, s)) return rc;
    if (address % sizeof wanted || !device_may_touch(address, sizeof wanted, false))
        return CUDA_ERROR_INVALID_VALUE;
    if (CUresult rc = check_wait(how)) return rc;
    if (CUresult rc = may_work(*s)) return rc;
    s->enqueue([address, wanted, how] {
        // Whoever writes it, a kernel or the host, tells nobody.
        std::atomic_ref value(*reinterpret_cast<Value *>(address));
        while (!reached(value.load(), wanted, how)) std::this_thread::yield();
    });
    return CUDA_SUCCESS;
}

template <class Value>
CUresult write_value(CUstream handle, CUdeviceptr address, Value wanted, unsigned flags)
{
    std::shared_ptr<Stream> s;
    if (CUresult rc = find_stream(handle, s)) return rc;
    if (address % sizeof wanted || !device_may_touch(address, sizeof wanted, true))
        return CUDA_ERROR_INVALID_VALUE;
    if (CUresult rc = check_write(flags)) return rc;
    if (CUresult rc = may_work(*s)) return rc;
    s->enqueue(
        [address, wanted] { std::atomic_ref(*reinterpret_cast<Value *>(address)).store(wanted); });
    return CUDA_SUCCESS;
}

CUresult check_one(const CUstreamBatchMemOpParams &p)
{
    auto there = [&p](CUdeviceptr address, size_t bytes, bool write) {
        if (address % bytes || !device_may_touch(address, bytes, write))
            return CUDA_ERROR_INVALID_VALUE;
        return write ? check_write(p.writeValue.flags) : check_wait(p.waitValue.flags);
    };
    switch (p.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32: return there(p.waitValue.address, 4, false);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64: return there(p.waitValue.address, 8, false);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32: return there(p.writeValue.address, 4, true);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64: return there(p.writeValue.address, 8, true);
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES: return CUDA_ERROR_NOT_SUPPORTED;  // as above
    case CU_STREAM_MEM_OP_BARRIER: return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

// In order; all or none.
CUresult batch_mem_op(CUstream stream, unsigned count, CUstreamBatchMemOpParams *p, unsigned flags)
{
    if ((count && !p) || count > 256 || flags)
        return CUDA_ERROR_INVALID_VALUE;  // 256: CUDA's own limit
    for (unsigned i = 0; i < count; i++)
        if (CUresult rc = check_one(p[i])) return rc;
    for (unsigned i = 0; i < count; i++) {
        const auto &wait = p[i].waitValue;
        const auto &write = p[i].writeValue;
        CUresult rc = CUDA_SUCCESS;
        switch (p[i].operation) {
        case CU_STREAM_MEM_OP_WAIT_VALUE_32:
            rc = wait_value<cuuint32_t>(stream, wait.address, wait.value, wait.flags);
            break;
        case CU_STREAM_MEM_OP_WAIT_VALUE_64:
            rc = wait_value<cuuint64_t>(stream, wait.address, wait.value64, wait.flags);
            break;
        case CU_STREAM_MEM_OP_WRITE_VALUE_32:
            rc = write_value<cuuint32_t>(stream, write.address, write.value, write.flags);
            break;
        case CU_STREAM_MEM_OP_WRITE_VALUE_64:
            rc = write_value<cuuint64_t>(stream, write.address, write.value64, write.flags);
            break;
        default: break;  // each of the above is a barrier
        }
        if (rc) return rc;
    }
    return CUDA_SUCCESS;
}

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
RGPU_EXPORT_PTSZ(cuStreamWaitValue32_v2, wait_value<cuuint32_t>)
RGPU_EXPORT_PTSZ(cuStreamWaitValue64_v2, wait_value<cuuint64_t>)
RGPU_EXPORT_PTSZ(cuStreamWriteValue32_v2, write_value<cuuint32_t>)
RGPU_EXPORT_PTSZ(cuStreamWriteValue64_v2, write_value<cuuint64_t>)
RGPU_EXPORT_PTSZ(cuStreamBatchMemOp_v2, batch_mem_op)

}  // namespace

}  // namespace rgpu::softgpu::driver
