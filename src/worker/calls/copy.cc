// SPDX-License-Identifier: Apache-2.0
// Copies between the client and the device, through pinned chunks. The layout of the body is
// described in wire/bodies.h.
#include "wire/bodies.h"
#include "worker/calls/own.h"
#include "worker/driver/driver.h"
#include "worker/session/stream_order.h"

namespace rgpu::worker::own {

namespace {

using wire::CopyTarget;

// A part of the copy, as much as lies together.
Result<void> copy_some(Session &s, CUdeviceptr to, size_t most, CUstream stream, CUresult &result,
                       size_t &n)
{
    const net::Lent lent = s.input.lend(most);
    n = lent.data ? lent.bytes : 0;
    Chunk chunk = lent.data ? s.staging.around(lent, s.context(), result)
                            : s.staging.take(s.context(), result);
    if (result) {
        if (chunk.data || lent.data) s.staging.give_up(chunk);
        return {};
    }
    const void *from = lent.data ? lent.data : chunk.data;
    if (!lent.data) {
        n = std::min(most, chunk.bytes);
        if (auto r = s.input.read(chunk.data, n); !r) {
            s.staging.give_up(chunk);
            return r;
        }
    }
    s.turns.copied(s.context(), n);
    result = DRIVER(cuMemcpyHtoDAsync_v2)(to, from, n, stream);
    if (!result) result = DRIVER(cuEventRecord)(chunk.event, stream);
    if (result) {
        s.staging.give_up(chunk);
        return {};
    }
    s.staging.give_later(chunk);
    s.staging.give_done();
    return {};
}

// Takes all its bytes off the wire, also when it has failed.
Result<void> copy_in(Session &s, const CopyTarget &t, CUstream stream, CUresult &result)
{
    size_t done = 0, n = 0;
    for (; !result && done < t.bytes; done += n)
        if (auto r = copy_some(s, t.device + done, t.bytes - done, stream, result, n); !r) return r;
    std::vector<uint8_t> nowhere(t.bytes - done);
    return s.input.read(nowhere.data(), nowhere.size());
}

}  // namespace

Result<void> cuMemcpyHtoDAsync_v2(Session &s, Call &call)
{
    uint8_t fixed[CopyTarget::kBytes];
    if (call.header.bytes < sizeof fixed) return error(ErrorKind::invalid, "its body is too short");
    if (auto r = s.input.read(fixed, sizeof fixed); !r) return r;
    wire::Reader reader(fixed, sizeof fixed);
    const auto t = CopyTarget::read(reader);
    if (t.bytes != call.header.bytes - sizeof fixed)
        return error(ErrorKind::invalid, "%zu bytes announced, %zu sent",
                     static_cast<size_t>(t.bytes), call.header.bytes - sizeof fixed);

    CUstream stream = nullptr;
    CUresult result = s.context() ? s.objects.get(t.stream, stream) : CUDA_ERROR_INVALID_CONTEXT;
    if (!result && !s.addresses.has(t.device, t.bytes)) result = CUDA_ERROR_INVALID_VALUE;
    if (s.copies.any_open() && !is_apart(s, stream_key(call, t.stream), stream)) close_copies(s);
    if (auto r = copy_in(s, t, stream, result); !r) return r;
    s.finish(call, result);
    return {};
}

Result<void> cuMemcpyDtoHAsync_v2(Session &s, Call &call)
{
    auto t = CopyTarget::read(call.body);
    if (!call.body.at_end() || !call.wants_reply()) return misfit();
    CUstream stream = nullptr;
    CUresult result = s.objects.get(t.stream, stream);
    if (!result && !s.addresses.has(t.device, t.bytes)) result = CUDA_ERROR_INVALID_VALUE;
    if (!result && call.caller_waits() && call.header.sequence && t.bytes >= Copies::kLarge) {
        s.turns.copied(s.context(), t.bytes);
        s.long_copies.start({call.header.sequence, s.context(), stream, t.device, t.bytes});
        return {};
    }
    const Copies::Key key = stream_key(call, t.stream);
    if (!result && call.header.sequence && t.bytes >= Copies::kLarge) {
        s.turns.copied(s.context(), t.bytes);
        s.copies.open(key, {call.header.sequence, s.context(), stream, t.device, t.bytes});
        return {};
    }
    while (!result && t.bytes) {
        Copies::Part part;
        part.sequence = call.header.sequence;
        part.waited = call.caller_waits();
        part.chunk = s.staging.take_to_send(s.context(), result);
        part.bytes = std::min<uint64_t>(t.bytes, part.chunk.bytes);
        part.last = part.bytes == t.bytes;
        if (!result)
            result = DRIVER(cuMemcpyDtoHAsync_v2)(part.chunk.data, t.device, part.bytes, stream);
        if (!result) result = DRIVER(cuEventRecord)(part.chunk.event, stream);
        if (result) {
            if (part.chunk.data) s.staging.give(part.chunk);
            break;
        }
        s.turns.copied(s.context(), part.bytes);
        t.device += part.bytes, t.bytes -= part.bytes;
        s.copies.add(key, part);
    }
    // A copy that fails half-way is ended by a frame with the error and no bytes.
    if (result || !call.header.sequence)
        s.sender.data(call.header.sequence, result, nullptr, 0, true);
    return {};
}

}  // namespace rgpu::worker::own
