// SPDX-License-Identifier: Apache-2.0
// What a texture or surface object reads.
#include "interpose/state/process.h"
#include "interpose/stub/carried.h"
#include "wire/resource_body.h"

namespace rgpu::interpose {

namespace {

constexpr auto number_for = []<class T>(T &array) {
    auto id = Handles::get().id(array);
    if (!id || !*id) return CUDA_ERROR_INVALID_HANDLE;
    array = reinterpret_cast<T>(uintptr_t{*id});
    return CUDA_SUCCESS;
};

constexpr auto named_by = []<class T>(T &array) {
    const auto id = static_cast<HandleId>(reinterpret_cast<uintptr_t>(array));
    array = Handles::get().named<T>(id, current_context());
    return CUDA_SUCCESS;
};

}  // namespace

CUresult Carried<CUDA_RESOURCE_DESC>::encode(const CUDA_RESOURCE_DESC &d, std::vector<uint8_t> &out)
{
    CUDA_RESOURCE_DESC sent = d;
    const CUresult r = wire::change_array(sent, number_for);
    if (!r) wire::Writer(out).value(sent);
    return r;
}

void Carried<CUDA_RESOURCE_DESC>::decode(wire::Reader &r, CUDA_RESOURCE_DESC &d, HandleId)
{
    d = r.value<CUDA_RESOURCE_DESC>();
    wire::change_array(d, named_by);
}

}  // namespace rgpu::interpose
