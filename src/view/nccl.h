// SPDX-License-Identifier: Apache-2.0
// How programs of a job get our libnccl.so.2, which leads to the servers' NCCL (doc/nccl.md).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "view/gpus.h"

namespace rgpu::view {

// Our library, below interposer_dir. LD_LIBRARY_PATH names that directory, and a program that is
// not to have our library must not come upon it: so it lies in a folder of its own.
inline constexpr const char *kNcclLibrary = "/nccl/libnccl.so.2";

// The value that LD_PRELOAD is to have; `present` where our library is not to be there. In front of
// what there is, it serves programs that name NCCL as needed, even with an RPATH, and those that
// open it by its bare name.
//
// It is there where every GPU's server offers its NCCL and there is something to talk to: several
// GPUs, or `others`, other tasks of the job. `wanted` is the job's RGPU_NCCL: 1 is yes for one GPU,
// too, and 0 is no.
std::string nccl_preload(std::string_view present, const std::vector<Gpu> &gpus, bool others,
                         std::string_view wanted, const std::string &interposer_dir);

}  // namespace rgpu::view
