// SPDX-License-Identifier: Apache-2.0
// The one entry of libcuda.so.1 that is no driver call: our libnccl.so.2 (src/nccl) finds it by
// dlsym. NCCL's calls must go over the program's own session, behind what it has posted.
#include "interpose/nccl/calls.h"

#include "calls/nccl.h"
#include "interpose/base/guard.h"

namespace rgpu::interpose {

namespace {

uint64_t nccl_entry(uint32_t version, const char *name, const uint64_t *words)
{
    uint64_t result = calls::kNcclSystemError;
    if (version != calls::kNcclEntryVersion) return result;
    const CUresult r = guard("NCCL", [&] {
        result = nccl::call(name, words);
        return CUDA_SUCCESS;
    });
    return r ? uint64_t{calls::kNcclSystemError} : result;
}

}  // namespace

}  // namespace rgpu::interpose

using Entry = uint64_t(uint32_t, const char *, const uint64_t *);
extern "C" [[gnu::visibility("default")]] Entry cuRgpuNccl
    __attribute__((ifunc("rgpu_resolve_nccl")));
extern "C" [[gnu::no_sanitize("thread")]] Entry *rgpu_resolve_nccl()
{
    return rgpu::interpose::nccl_entry;
}
