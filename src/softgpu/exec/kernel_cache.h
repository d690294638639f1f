// Compiled kernels on disk, shared by all processes of a user.
//
// An entry is one file DIR/xx/KEY, made under another name and renamed, so that a reader sees all of
// it or nothing. A hit touches the file's time; when the entries outgrow the bound, the oldest go.
// Nothing here ever fails: where the disk does not help, the cache holds nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "softgpu/compiler.h"

namespace rgpu::softgpu::exec {

class KernelCache {
public:
    // An empty directory name: no cache.
    KernelCache(std::string directory, uint64_t bound) : directory_(std::move(directory)), bound_(bound) {}

    // RGPU_SOFTGPU_CACHE, or below XDG_CACHE_HOME, or below HOME. Read at each call.
    static std::string configured_directory();

    std::optional<CompiledKernel> find(std::string_view key) const;
    void store(std::string_view key, const CompiledKernel &) const;
    // Removes the least recently used entries until the rest is 80% of the bound, if it is over it.
    void trim() const;

private:
    std::string path(std::string_view key) const;

    std::string directory_;
    uint64_t bound_;
};

}  // namespace rgpu::softgpu::exec
