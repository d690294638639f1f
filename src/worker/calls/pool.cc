// SPDX-License-Identifier: Apache-2.0
// Attributes of memory pools and of graphs' memory. The layout is described in
// interpose/api/pool.cc.
#include "worker/calls/own.h"
#include "worker/driver/driver.h"

namespace rgpu::worker::own {

namespace {

struct Question {
    CUmemoryPool pool = nullptr;
    CUmemPool_attribute attribute{};
    uint64_t value = 0;
};

Result<CUresult> read(Session &s, Call &call, Question &q, bool set)
{
    auto id = call.body.value<HandleId>();
    q.attribute = static_cast<CUmemPool_attribute>(call.body.value<uint32_t>());
    if (set) q.value = call.body.value<uint64_t>();
    if (!call.body.at_end()) return misfit();
    CUresult r = s.objects.get(id, q.pool);
    return !r && !DRIVER(cuMemPoolSetAttribute) ? CUDA_ERROR_NOT_SUPPORTED : r;
}

}  // namespace

Result<void> cuMemPoolSetAttribute(Session &s, Call &call)
{
    Question q;
    auto r = read(s, call, q, true);
    if (!r) return std::move(r).error();
    s.finish(call, *r ? *r : DRIVER(cuMemPoolSetAttribute)(q.pool, q.attribute, &q.value));
    return {};
}

Result<void> cuMemPoolGetAttribute(Session &s, Call &call)
{
    Question q;
    auto r = read(s, call, q, false);
    if (!r) return std::move(r).error();
    CUresult result = *r ? *r : DRIVER(cuMemPoolGetAttribute)(q.pool, q.attribute, &q.value);
    std::vector<uint8_t> answer;
    wire::Writer(answer).value(q.value);
    s.finish(call, result, answer);
    return {};
}

Result<void> cuDeviceGetGraphMemAttribute(Session &s, Call &call)
{
    const auto device = call.body.value<CUdevice>();
    const auto attribute = static_cast<CUgraphMem_attribute>(call.body.value<uint32_t>());
    if (!call.body.at_end()) return misfit();
    cuuint64_t value = 0;
    auto get = DRIVER(cuDeviceGetGraphMemAttribute);
    CUresult result = get ? get(device, attribute, &value) : CUDA_ERROR_NOT_SUPPORTED;
    std::vector<uint8_t> answer;
    wire::Writer(answer).value(value);
    s.finish(call, result, answer);
    return {};
}

Result<void> cuDeviceSetGraphMemAttribute(Session &s, Call &call)
{
    const auto device = call.body.value<CUdevice>();
    const auto attribute = static_cast<CUgraphMem_attribute>(call.body.value<uint32_t>());
    auto value = call.body.value<cuuint64_t>();
    if (!call.body.at_end()) return misfit();
    auto set = DRIVER(cuDeviceSetGraphMemAttribute);
    s.finish(call, set ? set(device, attribute, &value) : CUDA_ERROR_NOT_SUPPORTED);
    return {};
}

}  // namespace rgpu::worker::own
