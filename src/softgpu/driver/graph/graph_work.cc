// SPDX-License-Identifier: Apache-2.0
#include "softgpu/driver/graph/graph_work.h"

#include "softgpu/driver/graph/condition.h"
#include "softgpu/driver/state/context.h"
#include "softgpu/driver/state/memory_op.h"

namespace rgpu::softgpu::driver {

Fill fill_of(const CUDA_MEMSET_NODE_PARAMS &p)
{
    return {p.dst, p.pitch, p.value, p.elementSize, p.width, p.height};
}

std::vector<std::shared_ptr<Graph>> graphs_in(const Work &work)
{
    if (const auto *child = std::get_if<ChildWork>(&work)) return {child->graph};
    if (const auto *c = std::get_if<ConditionalWork>(&work)) return c->graphs;
    return {};
}

namespace {

bool may_replace(const ConditionalWork &old, const ConditionalWork &now)
{
    if (old.type != now.type || old.bodies.size() != now.bodies.size()) return false;
    for (size_t i = 0; i < old.bodies.size(); i++) {
        const std::vector<WorkRef> &before = old.bodies[i]->steps, &after = now.bodies[i]->steps;
        if (before.size() != after.size()) return false;
        for (size_t k = 0; k < before.size(); k++)
            if (!driver::may_replace(*before[k], *after[k])) return false;
    }
    return true;
}

CUresult runnable(const ConditionalWork &c)
{
    if (CUresult rc = c.condition->context.usable()) return rc;
    for (const auto &body : c.bodies)
        for (const WorkRef &step : body->steps)
            if (CUresult rc = driver::runnable(*step)) return rc;
    return CUDA_SUCCESS;
}

void perform(const Body &body, Context &fallback)
{
    for (const auto &c : body.conditions) c->start();
    for (const WorkRef &step : body.steps) perform(*step, fallback);
}

// CUDA: the body's kernels set the value for the next time.
void perform(const ConditionalWork &c, Context &fallback)
{
    const unsigned value = c.condition->value();
    switch (c.type) {
    case CU_GRAPH_COND_TYPE_IF:
        if (const size_t which = value ? 0 : 1; which < c.bodies.size())
            perform(*c.bodies[which], fallback);
        return;
    case CU_GRAPH_COND_TYPE_WHILE:
        while (c.condition->value() && !fallback.error()) perform(*c.bodies[0], fallback);
        return;
    case CU_GRAPH_COND_TYPE_SWITCH:
        if (value < c.bodies.size()) perform(*c.bodies[value], fallback);
    }
}

}  // namespace

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
    if (const auto *c = std::get_if<ConditionalWork>(&old))
        return may_replace(*c, std::get<ConditionalWork>(now));
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
    if (const auto *c = std::get_if<ConditionalWork>(&work)) return runnable(*c);
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
    } else if (const auto *c = std::get_if<ConditionalWork>(&work)) {
        perform(*c, fallback);
    }
}

}  // namespace rgpu::softgpu::driver
