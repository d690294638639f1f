// SPDX-License-Identifier: Apache-2.0
// Which values the roles may take off the wire and give to the driver. A line of the table with a
// parameter of a type that stands nowhere here does not compile: either the type holds neither
// address nor handle (kFlat), or inspect() looks at what it holds, or its form on the wire is
// another (carried.h), or the line says what a bare number is (calls/roles.h, Use).
#pragma once

#include <type_traits>

#include "calls/roles.h"
#include "worker/calls/carried.h"

namespace rgpu::worker {

template <class T> inline constexpr bool kFlat = std::is_arithmetic_v<T> || std::is_enum_v<T>;
#define RGPU_FLAT(T) template <> inline constexpr bool kFlat<T> = true;
RGPU_FLAT(CUDA_ARRAY_DESCRIPTOR)
RGPU_FLAT(CUDA_ARRAY3D_DESCRIPTOR)
RGPU_FLAT(CUDA_TEXTURE_DESC)
RGPU_FLAT(CUDA_RESOURCE_VIEW_DESC)
RGPU_FLAT(CUgraphEdgeData)
RGPU_FLAT(CUmemAccessDesc)
RGPU_FLAT(CUmemLocation)
// Names of other processes' objects, which the driver must look up, and maps for kernels, which the
// GPU checks.
RGPU_FLAT(CUipcEventHandle)
RGPU_FLAT(CUipcMemHandle)
RGPU_FLAT(CUmemPoolPtrExportData)
RGPU_FLAT(CUtensorMap)
// What it is says another parameter: serve.h, names_event().
RGPU_FLAT(CUlaunchAttributeValue)
#undef RGPU_FLAT

// Refuses a value that names what is not the session's, and drops what only another system has a
// use for.
CUresult inspect(Session &, CUDA_MEMSET_NODE_PARAMS &);
CUresult inspect(Session &, CUDA_MEMSET_NODE_PARAMS_v2 &);
CUresult inspect(Session &, CUstreamBatchMemOpParams &);
CUresult inspect(Session &, CUmemAllocationProp &);
CUresult inspect(Session &, CUmemPoolProps &);

template <class T>
concept Inspected = requires(Session &s, T &v)
{
    {
        inspect(s, v)
        } -> std::same_as<CUresult>;
};

// Of type T, in a parameter of this role.
template <class T> consteval bool may_come(const calls::Role &role)
{
    if (role.use == calls::Use::device) return std::is_same_v<T, CUdevice>;
    if (role.use != calls::Use::value) return true;  // looked up: serve.h, may_use()
    // The driver's addresses and its numbers of objects are of this type.
    if (std::is_same_v<T, CUdeviceptr>) return false;
    return kFlat<T> || Inspected<T>;
}

}  // namespace rgpu::worker
