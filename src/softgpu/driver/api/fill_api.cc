// SPDX-License-Identifier: Apache-2.0
// Setting memory: CUDA Driver API, "Memory Management", cuMemset*.
#include "softgpu/driver/api/export.h"
#include "softgpu/driver/graph/submit.h"
#include "softgpu/driver/state/current.h"
#include "softgpu/driver/state/stream.h"

namespace rgpu::softgpu::driver {

namespace {

CUresult now(const Fill &f)
{
    std::shared_ptr<Stream> s;
    if (CUresult rc = find_stream(nullptr, s)) return rc;
    return fill_now(*s, f);
}

CUresult later(const Fill &f, CUstream stream)
{
    std::shared_ptr<Stream> s;
    if (CUresult rc = find_stream(stream, s)) return rc;
    return fill_async(*s, f);
}

template <class Element> CUresult flat(CUdeviceptr to, Element value, size_t n)
{
    return now({to, 0, value, sizeof value, n, 1});
}
template <class Element> CUresult flat_async(CUdeviceptr to, Element value, size_t n, CUstream s)
{
    return later({to, 0, value, sizeof value, n, 1}, s);
}
template <class Element>
CUresult rows(CUdeviceptr to, size_t pitch, Element value, size_t width, size_t height)
{
    return now({to, pitch, value, sizeof value, width, height});
}
template <class Element> CUresult rows_async(CUdeviceptr to, size_t pitch, Element value,
                                             size_t width, size_t height, CUstream s)
{
    return later({to, pitch, value, sizeof value, width, height}, s);
}

RGPU_EXPORT_PTDS(cuMemsetD8_v2, flat<unsigned char>)
RGPU_EXPORT_PTDS(cuMemsetD16_v2, flat<unsigned short>)
RGPU_EXPORT_PTDS(cuMemsetD32_v2, flat<unsigned int>)
RGPU_EXPORT_PTDS(cuMemsetD2D8_v2, rows<unsigned char>)
RGPU_EXPORT_PTDS(cuMemsetD2D16_v2, rows<unsigned short>)
RGPU_EXPORT_PTDS(cuMemsetD2D32_v2, rows<unsigned int>)
RGPU_EXPORT_PTSZ(cuMemsetD8Async, flat_async<unsigned char>)
RGPU_EXPORT_PTSZ(cuMemsetD16Async, flat_async<unsigned short>)
RGPU_EXPORT_PTSZ(cuMemsetD32Async, flat_async<unsigned int>)
RGPU_EXPORT_PTSZ(cuMemsetD2D8Async, rows_async<unsigned char>)
RGPU_EXPORT_PTSZ(cuMemsetD2D16Async, rows_async<unsigned short>)
RGPU_EXPORT_PTSZ(cuMemsetD2D32Async, rows_async<unsigned int>)

}  // namespace

}  // namespace rgpu::softgpu::driver
