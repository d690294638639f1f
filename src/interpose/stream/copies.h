// SPDX-License-Identifier: Apache-2.0
// Copies in stream order, as all calls that copy need them. Defined with the calls, in api/copy.cc
// and api/pitched.cc: a copy between servers is made of copies again (span/relay.h). Any thread.
#pragma once

#include "calls/cuda_api.h"

namespace rgpu::interpose {

// Copies of plain ranges in a stream, for all calls that copy. With `wait` the bytes are there on
// return; to the device: they are taken from where they are, and the program may change them.
CUresult copy_to_device(CUdeviceptr to, const void *from, size_t bytes, CUstream stream, bool wait);
CUresult copy_on_device(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
CUresult copy_to_host(void *to, CUdeviceptr from, size_t bytes, CUstream stream, bool wait);

// When a copy of a box is over for the caller: always, as CUDA says for the memory it goes to, or
// not at all.
enum class CopyWait { always, as_memory_says, never };
// Copies between the program's memory and the server's, or within either.
CUresult copy_box(const CUDA_MEMCPY3D &, CUstream stream, CopyWait);

}  // namespace rgpu::interpose
