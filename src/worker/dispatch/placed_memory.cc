// SPDX-License-Identifier: Apache-2.0
#include "worker/dispatch/placed_memory.h"

#include <cinttypes>

#include "wire/bands.h"
#include "worker/bands/bands.h"
#include "worker/driver/driver.h"
#include "worker/limits/memory_cap.h"

namespace rgpu::worker {

namespace {

using wire::PlacedStep;

// Whether there is such a device. What the client says of another one is no device's.
bool is_device(CUdevice device)
{
    int count = 0;
    return device >= 0 && !DRIVER(cuDeviceGetCount)(&count) && device < count;
}

Result<void> give_credit(Session &s, const Call &call, wire::Reader &body)
{
    const auto request = body.value<wire::CreditRequest>();
    if (!call.wants_reply() || request.addresses > wire::kMostAsked ||
        body.left() != request.addresses * sizeof(uint64_t) || request.bytes > wire::kMostPlaced)
        return error(ErrorKind::invalid, "it asks for credit as no client does");
    wire::CreditAnswer answer;
    const bool is_known = is_device(request.device) || (request.device == -1 && !request.bytes);
    CUresult r = is_known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    if (!r)
        r = bands() ? bands()->grant(request.device, request.bytes, answer.begin, answer.bytes)
                    : CUDA_ERROR_NOT_SUPPORTED;
    if (r || !request.bytes) answer.others = static_cast<uint32_t>(others_credit(request.device));
    if (answer.begin) answer.answers = request.addresses;
    std::vector<uint8_t> bytes;
    wire::Writer w(bytes);
    w.value(answer);
    for (uint32_t i = 0; i < answer.answers; i++)
        w.value(uint8_t{bands()->is_gone(body.value<uint64_t>())});
    s.finish(call, r, bytes);
    return {};
}

Result<void> allocate(Session &s, const Call &call, wire::Reader &body)
{
    const auto address = body.value<uint64_t>(), bytes = body.value<uint64_t>();
    if (!body.at_end()) return misfit();
    CUresult r = CUDA_SUCCESS;
    if (!bands() || !bands()->allocate_at(address, bytes, r))
        return error(ErrorKind::invalid,
                     "%" PRIu64 " bytes at %#" PRIx64 ", which the client may not give out", bytes,
                     address);
    if (!r) s.addresses.give(address, bytes, Addresses::Life::linear);
    s.finish(call, r);
    return {};
}

Result<void> take_back(wire::Reader &body)
{
    const auto device = body.value<CUdevice>();
    const auto bytes = body.value<uint64_t>();
    if (!body.at_end()) return misfit();
    if (!bands() || !is_device(device) || !bands()->take_back(device, bytes))
        return error(ErrorKind::invalid, "%" PRIu64 " bytes of credit, which the client lacks",
                     bytes);
    return {};
}

Result<void> take_step(Session &s, Call &call)
{
    switch (call.body.value<PlacedStep>()) {
    case PlacedStep::credit: return give_credit(s, call, call.body);
    case PlacedStep::allocate: return allocate(s, call, call.body);
    case PlacedStep::give_back: return take_back(call.body);
    }
    return misfit();
}

}  // namespace

Result<void> take_placed(Session &s, const wire::FrameHeader &h)
{
    // As what it is one of: for messages.
    Call call{h, calls::CallId::cuMemAlloc_v2};
    if (h.bytes > wire::kMaxCallBytes) return misfit();
    auto body = s.input.body(h.bytes);
    if (!body) return std::move(body).error();
    call.body = wire::Reader(*body, h.bytes);
    if (CUresult r = s.enter(h.value, call.context_gone)) {
        s.finish(call, r);
        return {};
    }
    auto taken = take_step(s, call);
    if (!taken) return std::move(taken).error().in("memory of the client's");
    return {};
}

}  // namespace rgpu::worker
