#include "softgpu/driver/graph/graph_work.h"

#include "softgpu/driver/state/context.h"
#include "softgpu/driver/state/memory_op.h"

namespace rgpu::softgpu::driver {

Fill fill_of(const CUDA_MEMSET_NODE_PARAMS &p)
{
    return {p.dst, p.pitch, p.value, p.elementSize, p.width, p.height};
}

bool may_replace(const Work &old, const Work &now)
{
    if (old.index() != now.index()) return false;
    if (const auto *k = std::get_if<KernelWork>(&old)) {
        auto before = k->module.lock(), after = std::get<KernelWork>(now).module.lock();
        return before && after && &before->context == &after->context;
    }
    if (const auto *c = std::get_if<CopyWork>(&old))
        return c->context == std::get<CopyWork>(now).context;
    if (const auto *f = std::get_if<FillWork>(&old))
        return f->context == std::get<FillWork>(now).context;
    if (const auto *m = std::get_if<MemoryOpWork>(&old))
        return m->context == std::get<MemoryOpWork>(now).context;
    if (const auto *a = std::get_if<AllocWork>(&old))
        return a->memory == std::get<AllocWork>(now).memory;
    if (const auto *f = std::get_if<FreeWork>(&old))
        return f->memory == std::get<FreeWork>(now).memory;
    return true;
}

CUresult runnable(const Work &work)
{
    if (const auto *k = std::get_if<KernelWork>(&work)) {
        auto module = k->module.lock();
        return module ? module->context.usable() : CUDA_ERROR_INVALID_HANDLE;
    }
    if (const auto *c = std::get_if<CopyWork>(&work)) {
        if (CUresult rc = c->context->usable()) return rc;
        return check(c->copy);
    }
    if (const auto *f = std::get_if<FillWork>(&work)) {
        if (CUresult rc = f->context->usable()) return rc;
        return check(fill_of(f->parameters));
    }
    if (const auto *m = std::get_if<MemoryOpWork>(&work)) {
        if (CUresult rc = m->context->usable()) return rc;
        for (const auto &o : m->operations)
            if (CUresult rc = check(o)) return rc;
    }
    return CUDA_SUCCESS;
}

void perform(const Work &work, Context &fallback)
{
    if (fallback.error()) return;
    if (const auto *k = std::get_if<KernelWork>(&work)) {
        Context &context = k->launch.function->module.context;
        if (!context.error()) perform(context, k->launch);
    } else if (const auto *c = std::get_if<CopyWork>(&work)) {
        if (!c->copy.empty() && !c->context->error()) perform(c->copy);
    } else if (const auto *f = std::get_if<FillWork>(&work)) {
        if (!f->context->error()) perform(fill_of(f->parameters));
    } else if (const auto *h = std::get_if<HostWork>(&work)) {
        h->parameters.fn(h->parameters.userData);
    } else if (const auto *m = std::get_if<MemoryOpWork>(&work)) {
        if (!m->context->error())
            for (const auto &o : m->operations) perform(o);
    }
}

}  // namespace rgpu::softgpu::driver
