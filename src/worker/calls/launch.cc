// SPDX-License-Identifier: Apache-2.0
// Kernel launches. The layout of the body is described in wire/bodies.h.
#include "wire/bodies.h"
#include "wire/launch_event.h"
#include "worker/calls/own.h"
#include "worker/driver/driver.h"

namespace rgpu::worker::own {

namespace {

// A pointer to each parameter, or null when the block is not one of such parameters.
void **pointers_into(uint8_t *block, size_t bytes, const std::vector<Parameter> *parameters,
                     std::vector<void *> &large, void *(&few)[32])
{
    if (!parameters) return nullptr;
    void **pointers = few;
    if (parameters->size() > std::size(few)) {
        large.resize(parameters->size());
        pointers = large.data();
    }
    for (size_t i = 0; i < parameters->size(); i++) {
        const Parameter &p = (*parameters)[i];
        if (p.offset > bytes || p.bytes > bytes - p.offset) return nullptr;
        pointers[i] = block + p.offset;
    }
    return pointers;
}

}  // namespace

Result<void> cuLaunchKernel(Session &s, Call &call)
{
    constexpr uint32_t kMaxAttributes = 64;
    wire::Reader &r = call.body;
    auto h = r.value<wire::LaunchHead>();
    if (h.attributes > kMaxAttributes)
        return error(ErrorKind::invalid, "%u attributes", h.attributes);
    std::vector<CUlaunchAttribute> attributes;
    for (uint32_t i = 0; i < h.attributes && r.ok(); i++)
        attributes.push_back(r.value<CUlaunchAttribute>());
    size_t bytes = r.value<uint32_t>();
    const uint8_t *p = r.bytes(bytes);
    if (!r.at_end()) return misfit();

    CUfunction function = nullptr;
    CUstream stream = nullptr;
    CUresult result = s.objects.get(h.function, function);
    if (!result && !function) result = CUDA_ERROR_INVALID_HANDLE;
    if (!result) result = s.objects.get(h.stream, stream);
    for (CUlaunchAttribute &a : attributes)
        if (CUevent *event = wire::event_of(a); event && !result)
            result = s.objects.get_in_place(*event);
    if (result) {
        s.finish(call, result);
        return {};
    }
    if (h.cooperative) {
        CUlaunchAttribute a{};
        a.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
        a.value.cooperative = 1;
        attributes.push_back(a);
    }
    // The block may lie unaligned in the input buffer.
    alignas(16) uint8_t aligned[4096];
    std::vector<uint8_t> large;
    uint8_t *params = aligned;
    if (bytes > sizeof aligned) {
        large.resize(bytes);
        params = large.data();
    }
    if (bytes) memcpy(params, p, bytes);
    void *block[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, params, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    void *few[32];
    std::vector<void *> many;
    void **pointers =
        bytes ? pointers_into(params, bytes, s.objects.parameters(h.function), many, few) : nullptr;
    void **extra = bytes && !pointers ? block : nullptr;

    Launching launching(s.turns, s.context(), function, stream);
    if (attributes.empty()) {
        const auto &[grid, block_dim, dynamic_shared] = h.shape;
        result = DRIVER(cuLaunchKernel)(function, grid[0], grid[1], grid[2], block_dim[0],
                                        block_dim[1], block_dim[2], dynamic_shared, stream,
                                        pointers, extra);
    } else {
        CUlaunchConfig c{};
        h.shape.put_into(c);
        c.hStream = stream;
        c.attrs = attributes.data();
        c.numAttrs = static_cast<unsigned>(attributes.size());
        result = DRIVER(cuLaunchKernelEx)(&c, function, pointers, extra);
    }
    s.finish(call, result);
    return {};
}

}  // namespace rgpu::worker::own
