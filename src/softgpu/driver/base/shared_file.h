// SPDX-License-Identifier: Apache-2.0
// A file in memory that another process of this user opens by a name which travels in an IPC
// handle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "calls/cuda_api.h"
#include "util/fd.h"
#include "util/result.h"

namespace rgpu::softgpu::driver {

// Where an open memory file of a process is found. Who has no handle cannot make one up: the key is
// random.
struct SharedFileName {
    int32_t pid = 0, fd = -1;
    uint64_t key = 0;
};

// `bytes` of zeroes, closed on exec.
Result<Fd> make_shared_file(uint64_t bytes);
SharedFileName name_of(const Fd &);
// `invalid` when the other process has ended or closed it.
Result<Fd> open_shared_file(const SharedFileName &);

// Memory of a device that a descriptor stands for (CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR): a
// file of this size for good, which says of what device it is and what is in it.
enum class GivenAway { memory, pool };
Result<Fd> make_exported_file(GivenAway, const CUuuid &device, uint64_t bytes);
struct ExportedFile {
    CUuuid device = {};
    uint64_t bytes = 0;
};
// Nothing where the descriptor is no such file.
std::optional<ExportedFile> exported_file(GivenAway, int fd);

}  // namespace rgpu::softgpu::driver
