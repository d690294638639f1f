// SPDX-License-Identifier: Apache-2.0
// Compiled kernels on disk, shared by all processes of a user: files DIR/xx/KEY
// (util/file_cache.h).
//
// Any thread, any process. A cache never fails a launch: what cannot be read is compiled again,
// what cannot be written is not kept.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "softgpu/compiler.h"
#include "util/file_cache.h"

namespace rgpu::softgpu::exec {

class KernelCache {
public:
    // An empty directory name: no cache.
    KernelCache(std::string directory, uint64_t bound);

    // RGPU_SOFTGPU_CACHE, or below XDG_CACHE_HOME, or below HOME. Read at each call.
    static std::string configured_directory();

    // Nothing where there is no such file, or one that is damaged or that others could have
    // written.
    std::optional<CompiledKernel> find(std::string_view key) const;
    void store(std::string_view key, const CompiledKernel &) const;
    // Removes the least recently used until the rest is within the bound.
    void trim() const { files_.trim(); }

private:
    FileCache files_;
};

}  // namespace rgpu::softgpu::exec
