// SPDX-License-Identifier: Apache-2.0
#include "softgpu/driver/graph/submit.h"

#include <memory>
#include <vector>

#include "softgpu/driver/graph/capture.h"
#include "softgpu/driver/graph/node_work.h"
#include "softgpu/driver/state/context.h"
#include "softgpu/driver/state/driver.h"
#include "softgpu/driver/state/memory.h"
#include "softgpu/driver/state/stream.h"

namespace rgpu::softgpu::driver {

namespace {

// Pageable memory up to this size is copied aside when its stream is busy; for more the caller
// waits.
constexpr size_t kStaged = size_t{1} << 20;

bool pageable(const Copy::Side &s)
{
    return s.end != Copy::End::device && s.end != Copy::End::array && is_pageable(s.address);
}

// CUDA C++ Programming Guide, "Peer-to-Peer Memory Copy": in the default stream a copy between two
// devices' memory starts when all that was given to either is done, and what is given to either
// later comes after it. True for such a copy; the first half is done then.
bool meets_other_device(const Stream &stream, const Copy &c)
{
    if (stream.kind != Stream::Kind::legacy) return false;
    bool other = false;
    for (const Copy::Side *s : {&c.to, &c.from}) {
        const auto range = driver().ranges.find(s->address);
        if (!range || !range->on_device()) continue;
        // Memory that was mapped is of no context.
        const Device &device = range->context ? range->context->device
                                              : *driver().devices[range->device];
        if (&device == &stream.context.device) continue;
        if (range->context)
            (void)range->context->synchronize();
        else
            synchronize_all(device);
        other = true;
    }
    return other;
}

}  // namespace

CUresult copy_now(Stream &stream, const Copy &c)
{
    if (c.empty()) return CUDA_SUCCESS;
    if (CUresult rc = check(c)) return rc;
    if (CUresult rc = may_work(stream)) return rc;
    (void)meets_other_device(stream, c);
    return stream.run([&c] { perform(c); });
}

CUresult copy_async(Stream &stream, const Copy &c)
{
    if (c.empty()) return CUDA_SUCCESS;
    if (CUresult rc = check(c)) return rc;
    if (stream.capturing) return capture_work(stream, copy_work(stream.context, c));
    if (CUresult rc = may_work(stream)) return rc;
    if (pageable(c.to) || meets_other_device(stream, c)) return stream.run([&c] { perform(c); });
    if (pageable(c.from)) {
        if (!c.flat() || c.width > kStaged || stream.idle())
            return stream.run([&c] { perform(c); });
        const auto *bytes = reinterpret_cast<const uint8_t *>(c.from.address);
        auto staged = std::make_shared<std::vector<uint8_t>>(bytes, bytes + c.width);
        Copy from_stage = c;
        from_stage.from.address = reinterpret_cast<uint64_t>(staged->data());
        stream.enqueue([staged, from_stage] { perform(from_stage); });
        return CUDA_SUCCESS;
    }
    stream.enqueue([c] { perform(c); });
    return CUDA_SUCCESS;
}

CUresult fill_now(Stream &stream, const Fill &f)
{
    if (f.empty()) return CUDA_SUCCESS;
    if (CUresult rc = check(f)) return rc;
    if (CUresult rc = may_work(stream)) return rc;
    return stream.run([&f] { perform(f); });
}

CUresult fill_async(Stream &stream, const Fill &f)
{
    if (f.empty()) return CUDA_SUCCESS;
    if (CUresult rc = check(f)) return rc;
    if (stream.capturing) return capture_work(stream, fill_work(stream.context, f));
    if (CUresult rc = may_work(stream)) return rc;
    stream.enqueue([f] { perform(f); });
    return CUDA_SUCCESS;
}

CUresult launch(Stream &stream, KernelLaunch l, CUfunction as_named)
{
    if (&l.function->module.context != &stream.context) return CUDA_ERROR_INVALID_HANDLE;
    if (CUresult rc = prepare(l)) return rc;
    if (stream.capturing) return capture_work(stream, kernel_work(std::move(l), as_named));
    if (CUresult rc = may_work(stream)) return rc;
    stream.enqueue([&context = stream.context, l = std::move(l)] { perform(context, l); });
    return CUDA_SUCCESS;
}

}  // namespace rgpu::softgpu::driver
