// SPDX-License-Identifier: Apache-2.0
// Copies of boxes: the struct itself, with numbers in place of arrays. A side in the program's
// memory stands only in a graph's nodes (own code carries out the others): host_copies.h puts
// server memory in its place.
#include "interpose/graph/host_copies.h"
#include "interpose/span/relay.h"
#include "interpose/state/process.h"
#include "interpose/stub/carried.h"

namespace rgpu::interpose {

namespace {

// A number in the field of an array; on the way back the array that it names.
CUresult array_out(CUmemorytype type, CUarray &array)
{
    HandleId id = calls::kNoHandle;
    if (type == CU_MEMORYTYPE_ARRAY) {
        auto number = Handles::get().id(array);
        if (!number || !*number) return CUDA_ERROR_INVALID_HANDLE;
        id = *number;
    }
    array = reinterpret_cast<CUarray>(uintptr_t{id});
    return CUDA_SUCCESS;
}

void array_in(CUmemorytype type, CUarray &array)
{
    const auto id = static_cast<HandleId>(reinterpret_cast<uintptr_t>(array));
    array = type == CU_MEMORYTYPE_ARRAY ? Handles::get().named<CUarray>(id, current_context())
                                        : nullptr;
}

}  // namespace

CUresult Carried<CUDA_MEMCPY3D>::encode(const CUDA_MEMCPY3D &c, std::vector<uint8_t> &out)
{
    if (relay::is_elsewhere(c)) return relay::not_in_graph();
    CUDA_MEMCPY3D sent = c;
    if (CUresult r = in_server_memory(sent)) return r;
    if (CUresult r = array_out(sent.srcMemoryType, sent.srcArray)) return r;
    if (CUresult r = array_out(sent.dstMemoryType, sent.dstArray)) return r;
    sent.srcHost = sent.dstHost = nullptr;
    wire::Writer(out).value(sent);
    return CUDA_SUCCESS;
}

void Carried<CUDA_MEMCPY3D>::decode(wire::Reader &r, CUDA_MEMCPY3D &c, HandleId)
{
    c = r.value<CUDA_MEMCPY3D>();
    array_in(c.srcMemoryType, c.srcArray);
    array_in(c.dstMemoryType, c.dstArray);
    in_program_memory(c);
}

}  // namespace rgpu::interpose
