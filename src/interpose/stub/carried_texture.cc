// What a texture or surface object reads. On the wire: the struct, with a number in the place of an
// array.
#include "interpose/state/process.h"
#include "interpose/stub/carried.h"

namespace rgpu::interpose {

namespace {

template <class T> CUresult number_for(T &array)
{
    auto id = Handles::get().id(array);
    if (!id || !*id) return CUDA_ERROR_INVALID_HANDLE;
    array = reinterpret_cast<T>(uintptr_t{*id});
    return CUDA_SUCCESS;
}

template <class T> void named_by(T &array)
{
    const auto id = static_cast<HandleId>(reinterpret_cast<uintptr_t>(array));
    array = Handles::get().named<T>(id, current_context());
}

}  // namespace

CUresult Carried<CUDA_RESOURCE_DESC>::encode(const CUDA_RESOURCE_DESC &d, std::vector<uint8_t> &out)
{
    CUDA_RESOURCE_DESC sent = d;
    CUresult r = CUDA_SUCCESS;
    if (d.resType == CU_RESOURCE_TYPE_ARRAY) r = number_for(sent.res.array.hArray);
    if (d.resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
        r = number_for(sent.res.mipmap.hMipmappedArray);
    if (!r) wire::Writer(out).value(sent);
    return r;
}

void Carried<CUDA_RESOURCE_DESC>::decode(wire::Reader &r, CUDA_RESOURCE_DESC &d, HandleId)
{
    d = r.value<CUDA_RESOURCE_DESC>();
    if (d.resType == CU_RESOURCE_TYPE_ARRAY) named_by(d.res.array.hArray);
    if (d.resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY) named_by(d.res.mipmap.hMipmappedArray);
}

}  // namespace rgpu::interpose
