// SPDX-License-Identifier: Apache-2.0
// Frames of mirrored memory, and variables that may be mirrored. Layouts: doc/protocol.md,
// "Mirrored memory".
#include "worker/calls/own.h"
#include "worker/driver/driver.h"

namespace rgpu::worker::own {

namespace {

using wire::MirrorStep;

Result<void> reserve(Session &s, Call &call)
{
    auto hint = call.body.value<uint64_t>(), bytes = call.body.value<uint64_t>();
    if (!call.body.at_end()) return misfit();
    uint64_t address = 0;
    CUresult r = s.mirrored.reserve(hint, bytes, address);
    std::vector<uint8_t> answer;
    wire::Writer(answer).value(address);
    s.finish(call, r, answer);
    return {};
}

Result<void> back_mapped(Session &s, Call &call)
{
    auto address = call.body.value<uint64_t>(), bytes = call.body.value<uint64_t>();
    if (!call.body.at_end()) return misfit();
    s.finish(call, s.addresses.has_reserved(address, bytes) ? s.mirrored.back_mapped(address, bytes)
                                                            : CUDA_ERROR_INVALID_VALUE);
    return {};
}

// In the current context.
Result<void> push(Session &s, Call &call)
{
    auto range = call.body.value<wire::MirroredRange>();
    const bool exclusive = call.body.value<uint8_t>();
    const size_t bytes = call.body.left();
    const uint8_t *diff = call.body.bytes(bytes);
    if (!call.body.at_end()) return misfit();
    auto r = s.mirrored.push(range, exclusive, diff, bytes);
    if (!r) return std::move(r).error();
    s.finish(call, *r);
    return {};
}

Result<void> pull(Session &s, Call &call, CUcontext context)
{
    std::vector<wire::MirroredRange> ranges(call.body.count(sizeof(wire::MirroredRange)));
    uint64_t bytes = 0;
    for (auto &range : ranges) {
        range = call.body.value<wire::MirroredRange>();
        if (range.bytes > wire::kMaxPullBytes)
            return error(ErrorKind::invalid, "a pull of too many bytes");
        bytes += range.bytes;
    }
    if (!call.body.at_end() || !call.wants_reply()) return misfit();
    if (ranges.size() > wire::kMaxPullRanges || bytes > wire::kMaxPullBytes)
        return error(ErrorKind::invalid, "a pull of too many bytes");
    // Comparing takes its time: the dispatcher goes on.
    s.waiters.run([&s, call, ranges = std::move(ranges), context] {
        std::vector<uint8_t> answer;
        CUresult r = DRIVER(cuCtxSetCurrent)(context);
        if (!r) r = s.mirrored.pull(ranges, answer);
        if (r) answer.clear();
        s.sender.reply(call.header.sequence, r, answer);
    });
    return {};
}

// Answers where a variable is. What is managed is mirrored from now on.
void answer_variable(Session &s, const Call &call, CUresult r, CUdeviceptr address, size_t bytes)
{
    uint32_t managed = 0;
    if (!r && DRIVER(cuPointerGetAttribute)(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address))
        managed = 0;
    const bool is_managed = managed & 0xff;
    if (is_managed) r = s.mirrored.adopt(address, bytes);
    std::vector<uint8_t> answer;
    wire::Writer w(answer);
    wire::Variable{address, bytes, is_managed}.write(w);
    s.finish(call, r, answer);
}

template <class Owner, class Find> Result<void> variable(Session &s, Call &call, Find find)
{
    const auto asked = wire::VariableLookUp::read(call.body);
    if (!call.body.at_end()) return misfit();
    s.when_quiet(call, [&s, asked, find](const Call &call) {
        Owner owner{};
        CUdeviceptr address = 0;
        size_t bytes = 0;
        CUresult r = find ? s.objects.get(asked.owner, owner) : CUDA_ERROR_NOT_SUPPORTED;
        if (!r) r = find(&address, &bytes, owner, asked.name.c_str());
        answer_variable(s, call, r, address, bytes);
    });
    return {};
}

}  // namespace

Result<void> cuMemAllocManaged(Session &s, Call &call)
{
    const auto step = call.body.value<MirrorStep>();
    if (step == MirrorStep::push) return push(s, call);
    if (step == MirrorStep::pull) return pull(s, call, call.relief ? call.relief : s.context());
    if (call.relief) return call.decline();
    if (step == MirrorStep::reserve) return reserve(s, call);
    if (step == MirrorStep::back_mapped) return back_mapped(s, call);
    const auto address = call.body.value<uint64_t>();
    if (!call.body.at_end() || (step != MirrorStep::back && step != MirrorStep::release))
        return misfit();
    if (step == MirrorStep::release && s.callbacks.pending()) {
        // Drivers may wait for work before they unmap memory: the work may be waiting for a host
        // function.
        s.waiters.run([&s, call, address] { s.finish(call, s.mirrored.release(address)); });
        return {};
    }
    s.finish(call,
             step == MirrorStep::back ? s.mirrored.back(address) : s.mirrored.release(address));
    return {};
}

Result<void> cuModuleGetGlobal_v2(Session &s, Call &call)
{
    return variable<CUmodule>(s, call, DRIVER(cuModuleGetGlobal_v2));
}
Result<void> cuLibraryGetManaged(Session &s, Call &call)
{
    return variable<CUlibrary>(s, call, DRIVER(cuLibraryGetManaged));
}

}  // namespace rgpu::worker::own
