// One address space for the memory of several servers: an address means memory of one of them.
//
// Each server's driver places memory without knowing of the others. What meets another server's memory is given back, its
// addresses are reserved there so that the driver must take others, and it is asked again. Where nothing can be reserved, the
// memory itself is kept until the end of the search.
#pragma once

#include <functional>

#include "interpose/servers.h"

namespace rgpu::interpose {

namespace detail {

using Allocate = std::function<CUresult()>;
using GiveBack = std::function<void(CUdeviceptr)>;
// `base` and `bytes` are what was allocated last.
CUresult move_apart(CUdeviceptr *base, const std::function<size_t()> &bytes, const Allocate &, const GiveBack &);

}  // namespace detail

// Carries out `allocate`, which writes *base, until that is no other server's. Says on standard error what to do where it never is.
template <class Bytes, class Allocate, class GiveBack>
CUresult in_one_space(CUdeviceptr *base, Bytes bytes, Allocate allocate, GiveBack give_back)
{
    const CUresult r = allocate();
    return r || !spanning() || !base ? r : detail::move_apart(base, bytes, allocate, give_back);
}

}  // namespace rgpu::interpose
