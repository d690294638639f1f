// SPDX-License-Identifier: Apache-2.0
// What a texture or surface object reads (CUDA_RESOURCE_DESC): on the wire the struct as it is,
// with the number of an array in the place of the array.
#pragma once

#include "calls/cuda_api.h"

namespace rgpu::wire {

// Calls `change` with the array, or mipmapped array, that `d` names, whose number stands in its
// place on the wire. CUDA_SUCCESS where there is none: memory.
template <class Change> CUresult change_array(CUDA_RESOURCE_DESC &d, Change change)
{
    switch (d.resType) {
    case CU_RESOURCE_TYPE_ARRAY: return change(d.res.array.hArray);
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY: return change(d.res.mipmap.hMipmappedArray);
    default: return CUDA_SUCCESS;
    }
}

}  // namespace rgpu::wire
