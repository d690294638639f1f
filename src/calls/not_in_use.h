// SPDX-License-Identifier: Apache-2.0
// What a driver answers where a program asks about a feature that it does not use, or announces an
// interest in it: NVIDIA's answer for such a process, written once for both our drivers. Programs
// ask about much that they never use, and give up where the question is refused. libc only.
//
// Any thread may call any of these at any time.
#pragma once

#include "calls/cuda_api.h"

namespace rgpu::calls {

// cuDeviceGetDevResource, cuCtxGetDevResource: no green context has any, so all `sms` of a device
// of compute capability `major`.x.
CUresult all_sms(CUdevResource *, CUdevResourceType, int sms, int major);

// cuCoredumpGetAttribute: what holds for a process that has set nothing.
CUresult coredump_setting(CUcoredumpSettings, void *value, size_t *bytes);

// cuCoredumpSetAttribute: success where that holds already, CUDA_ERROR_NOT_SUPPORTED for a core
// dump that is asked for.
CUresult set_coredump(CUcoredumpSettings, const void *value, const size_t *bytes);

// Callbacks for what never comes about: a handle, which ends once.
enum class Interest { memory_pressure, log };
CUresult announce(Interest, void **handle);
CUresult withdraw(Interest, void *handle);

// The driver's error log, which stays empty.
CUresult log_position(unsigned *iterator, unsigned flags);
CUresult log_to_file(unsigned *iterator, const char *path, unsigned flags);
CUresult log_to_memory(unsigned *iterator, char *buffer, size_t *bytes, unsigned flags);

#if CUDA_VERSION >= 12080
// cuCheckpointProcessGetState: of this process. Others are not known here.
CUresult checkpoint_state(int pid, CUprocessState *);
#endif

}  // namespace rgpu::calls
