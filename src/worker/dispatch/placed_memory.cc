// SPDX-License-Identifier: Apache-2.0
#include "worker/dispatch/placed_memory.h"

#include <cinttypes>

#include "wire/bands.h"
#include "worker/bands/bands.h"
#include "worker/driver/driver.h"
#include "worker/limits/memory_cap.h"
#include "worker/limits/metering.h"

namespace rgpu::worker {

namespace {

using wire::PlacedStep;

// Whether there is such a device. What the client says of another one is no device's.
bool is_device(CUdevice device)
{
    int count = 0;
    return device >= 0 && !DRIVER(cuDeviceGetCount)(&count) && device < count;
}

Error lie(uint64_t bytes, uint64_t address)
{
    return error(ErrorKind::invalid,
                 "%" PRIu64 " bytes at %#" PRIx64 ", which the client may not give out", bytes,
                 address);
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
    if (!bands() || !bands()->allocate_at(address, bytes, r)) return lie(bytes, address);
    if (!r) s.addresses.give(address, bytes, Addresses::Life::linear);
    s.finish(call, r);
    return {};
}

// Memory of a pool is the session's, page by page: pages go back one by one.
Result<void> take_pages(Session &s, const Call &call, wire::Reader &body)
{
    const auto device = body.value<CUdevice>();
    const auto address = body.value<uint64_t>(), bytes = body.value<uint64_t>();
    if (!body.at_end()) return misfit();
    CUresult r = CUDA_SUCCESS;
    if (!bands() || !is_device(device) || !bands()->take_pages(device, address, bytes, r))
        return lie(bytes, address);
    for (uint64_t at = 0; !r && at < bytes; at += Band::kPage)
        s.addresses.give(address + at, Band::kPage, Addresses::Life::lasting);
    s.finish(call, r);
    return {};
}

Result<void> give_pages(Session &s, wire::Reader &body)
{
    const auto address = body.value<uint64_t>(), bytes = body.value<uint64_t>();
    if (!body.at_end()) return misfit();
    if (!bands() || !bands()->give_pages(address, bytes)) return lie(bytes, address);
    s.addresses.take(address, bytes);
    Metering::here().look_at_memory();
    return {};
}

Result<void> take_piece(Session &s, const Call &call, wire::Reader &body)
{
    const auto device = body.value<CUdevice>();
    const auto bytes = body.value<uint64_t>();
    if (!body.at_end()) return misfit();
    if (!call.wants_reply() || !is_device(device) || bytes <= wire::kMostPlaced ||
        bytes > wire::kBandBytes || bytes % Band::kPage)
        return error(ErrorKind::invalid, "it asks for a piece as no client does");
    CUdeviceptr address = 0;
    const CUresult r = bands() ? bands()->take_piece(device, bytes, address)
                               : CUDA_ERROR_NOT_SUPPORTED;
    if (!r) s.addresses.give(address, bytes, Addresses::Life::lasting);
    std::vector<uint8_t> answer;
    wire::Writer(answer).value(uint64_t{address});
    s.finish(call, r, answer);
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
    case PlacedStep::take_pages: return take_pages(s, call, call.body);
    case PlacedStep::give_pages: return give_pages(s, call.body);
    case PlacedStep::take_piece: return take_piece(s, call, call.body);
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
