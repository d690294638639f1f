// SPDX-License-Identifier: Apache-2.0
// What a texture or surface object reads, and launches that are only asked about.
#include "wire/bodies.h"
#include "wire/launch_event.h"
#include "wire/resource_body.h"
#include "worker/calls/carried.h"
#include "worker/session/session.h"

namespace rgpu::worker {

CUresult Carried<CUDA_RESOURCE_DESC>::decode(wire::Reader &r, Session &s, CUDA_RESOURCE_DESC &d,
                                             CarriedMemory &)
{
    d = r.value<CUDA_RESOURCE_DESC>();
    if (CUresult e =
            wire::change_array(d, [&](auto &array) { return s.objects.get_in_place(array); }))
        return e;
    const auto &line = d.res.linear;
    const auto &rows = d.res.pitch2D;
    bool has = d.resType == CU_RESOURCE_TYPE_ARRAY || d.resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
    if (d.resType == CU_RESOURCE_TYPE_LINEAR)
        has = s.addresses.has(line.devPtr, std::max<size_t>(line.sizeInBytes, 1));
    // Of the last row its beginning: what a kernel reads behind it the GPU checks.
    if (d.resType == CU_RESOURCE_TYPE_PITCH2D)
        has = s.addresses.has_rows(rows.devPtr, 1, rows.pitchInBytes, rows.height);
    return has ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void Carried<CUDA_RESOURCE_DESC>::encode(wire::Writer &w, Session &s, const CUDA_RESOURCE_DESC &d)
{
    CUDA_RESOURCE_DESC sent = d;
    wire::change_array(sent, [&](auto &array) {
        s.objects.number_in_place(array);
        return CUDA_SUCCESS;
    });
    w.value(sent);
}

CUresult Carried<CUlaunchConfig>::decode(wire::Reader &r, Session &s, CUlaunchConfig &c,
                                         CarriedMemory &memory)
{
    const auto h = r.value<wire::AskedLaunchHead>();
    h.shape.put_into(c);
    c.numAttrs = static_cast<unsigned>(r.count(sizeof *c.attrs));
    const size_t bytes = c.numAttrs * sizeof *c.attrs;
    const uint8_t *from = r.bytes(bytes);
    uint8_t *to = memory.take(bytes);
    if (from && bytes) memcpy(to, from, bytes);
    c.attrs = reinterpret_cast<CUlaunchAttribute *>(to);
    // A launch that is only asked about records no event.
    for (unsigned i = 0; i < c.numAttrs; i++)
        if (CUevent *event = wire::event_of(c.attrs[i]))
            *event = nullptr, c.attrs[i].id = CU_LAUNCH_ATTRIBUTE_IGNORE;
    return s.objects.get(h.stream, c.hStream);
}

}  // namespace rgpu::worker
