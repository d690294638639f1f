// SPDX-License-Identifier: Apache-2.0
// Tensor maps (TMA): 128 opaque bytes that the server's driver makes of a description; a kernel
// gets them as a parameter.
#include <algorithm>
#include <array>

#include "interpose/stub/by_hand.h"
#include "interpose/stub/stub.h"

namespace rgpu::interpose::own {

namespace {

constexpr cuuint32_t kMaxRank = 5;

// There is one stride fewer than dimensions, and the table's arrays are all as long as the rank.
using Strides = std::array<cuuint64_t, kMaxRank>;
const cuuint64_t *padded(const cuuint64_t *strides, cuuint32_t rank, Strides &all)
{
    if (!strides) return nullptr;
    std::copy_n(strides, rank - 1, all.begin());
    return all.data();
}

bool is_rank(cuuint32_t rank) { return rank >= 1 && rank <= kMaxRank; }
bool is_map(const CUtensorMap *map)
{
    return map && reinterpret_cast<uintptr_t>(map) % alignof(CUtensorMap) == 0;
}

}  // namespace

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank,
                                void *address, const cuuint64_t *dims, const cuuint64_t *strides,
                                const cuuint32_t *box, const cuuint32_t *element_strides,
                                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
    if (!session()) return not_ready();
    if (!is_map(map) || !is_rank(rank)) return CUDA_ERROR_INVALID_VALUE;
    Strides all{};
    return remote<CallId::cuTensorMapEncodeTiled>(map, type, rank, address, dims,
                                                  padded(strides, rank, all), box, element_strides,
                                                  interleave, swizzle, promotion, fill);
}

// The corners of the pixels' box are there for the spatial dimensions: rank - 2 of them.
CUresult cuTensorMapEncodeIm2col(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank,
                                 void *address, const cuuint64_t *dims, const cuuint64_t *strides,
                                 const int *lower, const int *upper, cuuint32_t channels,
                                 cuuint32_t pixels, const cuuint32_t *element_strides,
                                 CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                 CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
    if (!session()) return not_ready();
    if (!is_map(map) || rank < 3 || !is_rank(rank) || !lower || !upper)
        return CUDA_ERROR_INVALID_VALUE;
    Strides all{};
    std::array<int, kMaxRank> low{}, high{};
    std::copy_n(lower, rank - 2, low.begin());
    std::copy_n(upper, rank - 2, high.begin());
    return remote<CallId::cuTensorMapEncodeIm2col>(
        map, type, rank, address, dims, padded(strides, rank, all),
        static_cast<const int *>(low.data()), static_cast<const int *>(high.data()), channels,
        pixels, element_strides, interleave, swizzle, promotion, fill);
}

CUresult cuTensorMapReplaceAddress(CUtensorMap *map, void *address)
{
    if (!session()) return not_ready();
    return is_map(map) ? remote<CallId::cuTensorMapReplaceAddress>(map, address)
                       : CUDA_ERROR_INVALID_VALUE;
}

#if CUDA_VERSION >= 12080
CUresult cuTensorMapEncodeIm2colWide(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank,
                                     void *address, const cuuint64_t *dims,
                                     const cuuint64_t *strides, int lower, int upper,
                                     cuuint32_t channels, cuuint32_t pixels,
                                     const cuuint32_t *element_strides,
                                     CUtensorMapInterleave interleave,
                                     CUtensorMapIm2ColWideMode mode, CUtensorMapSwizzle swizzle,
                                     CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
    if (!session()) return not_ready();
    if (!is_map(map) || !is_rank(rank)) return CUDA_ERROR_INVALID_VALUE;
    Strides all{};
    return remote<CallId::cuTensorMapEncodeIm2colWide>(
        map, type, rank, address, dims, padded(strides, rank, all), lower, upper, channels, pixels,
        element_strides, interleave, mode, swizzle, promotion, fill);
}
#endif

}  // namespace rgpu::interpose::own
