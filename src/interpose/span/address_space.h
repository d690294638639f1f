// SPDX-License-Identifier: Apache-2.0
// One address space for the memory of several servers: an address means memory of one of them.
//
// Each server's driver places memory without knowing of the others. What meets another server's
// memory is given back, its addresses are reserved there so that the driver must take others, and
// it is asked again. Small pieces that lie beside others leave nothing that can be reserved: the
// room beside them is filled instead, for good.
#pragma once

#include <functional>

#include "interpose/base/guard.h"
#include "interpose/state/ranges.h"
#include "interpose/state/servers.h"

namespace rgpu::interpose {

namespace detail {

// `base` and `bytes` are what was allocated last.
CUresult move_apart(CUdeviceptr *base, const std::function<size_t()> &bytes,
                    const std::function<CUresult()> &allocate,
                    const std::function<void(CUdeviceptr)> &give_back);

}  // namespace detail

// Carries out `allocate`, which writes *base, until that is no other server's, and notes it. Where
// it never is, standard error says what to do.
template <class Bytes, class Allocate, class GiveBack, class Note>
CUresult in_one_space(CUdeviceptr *base, Bytes bytes, Allocate allocate, GiveBack give_back,
                      Note note)
{
    const auto lock = hold_space();
    CUresult r = allocate();
    if (!r && spanning() && base) r = detail::move_apart(base, bytes, allocate, give_back);
    if (r) return r;
    Unless noted([&] {
        if (base) give_back(*base);
    });
    note();
    noted.keep();
    return CUDA_SUCCESS;
}

}  // namespace rgpu::interpose
