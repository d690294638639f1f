#include "softgpu/driver/state/stream.h"

#include "softgpu/driver/api/export.h"
#include "softgpu/driver/base/printing.h"
#include "softgpu/driver/state/driver.h"

namespace rgpu::softgpu::driver {

namespace {
std::atomic<uint64_t> next_stream_id = 1;
}

Stream::Stream(Context &c, Kind k, unsigned f, int p)
    : context(c), kind(k), flags(f), priority(p), id(next_stream_id++)
{}

TaskRef Stream::make(std::function<void()> work)
{
    return std::make_shared<Task>([&context = context, work = std::move(work)] {
        if (!context.error()) work();
    });
}

TaskRef Stream::enqueue(std::function<void()> work, std::vector<TaskRef> after)
{
    TaskRef task = make(std::move(work));
    context.order(*this, task, std::move(after), false);
    return task;
}

CUresult Stream::run(std::function<void()> work)
{
    TaskRef task = make(std::move(work));
    context.order(*this, task, {}, true);
    driver().scheduler.run_by_caller(task);
    flush_prints();
    return context.error();
}

bool Stream::idle()
{
    for (const TaskRef &t : context.tails_of(*this))
        if (!driver().scheduler.done(t)) return false;
    return true;
}

CUresult Stream::synchronize()
{
    for (const TaskRef &t : context.tails_of(*this)) driver().scheduler.wait(t);
    flush_prints();
    return context.error();
}

CUresult find_stream(CUstream handle, std::shared_ptr<Stream> &stream)
{
    const bool null = !handle;
    if (null || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
        Context *c;
        if (CUresult rc = usable_context(c)) return rc;
        const bool mine = null ? t_null_stream_is_per_thread : handle == CU_STREAM_PER_THREAD;
        stream = mine ? c->thread_stream() : c->legacy_stream();
        return CUDA_SUCCESS;
    }
    stream = driver().streams.find(handle);
    return stream ? stream->context.usable() : CUDA_ERROR_INVALID_HANDLE;
}

}  // namespace rgpu::softgpu::driver
