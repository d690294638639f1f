// A file in memory that another process of this user opens by a name which travels in an IPC
// handle.
#pragma once

#include <cstddef>
#include <cstdint>

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

}  // namespace rgpu::softgpu::driver
