// SPDX-License-Identifier: Apache-2.0
// The disk cache, and compile_cached().
#include "softgpu/exec/kernel_cache.h"

#include <atomic>
#include <cstdlib>

#include "softgpu/engine.h"
#include "softgpu/exec/kernel_file.h"
#include "softgpu/exec/limits.h"

namespace rgpu::softgpu::exec {

namespace {

std::string variable(const char *name)
{
    const char *value = getenv(name);
    return value ? value : "";
}

}  // namespace

KernelCache::KernelCache(std::string directory, uint64_t bound)
    : files_(std::move(directory), FileCache::Layout::folders, bound, kMaxObject)
{}

std::string KernelCache::configured_directory()
{
    if (std::string own = variable("RGPU_SOFTGPU_CACHE"); !own.empty())
        return own == "off" ? "" : own;
    if (std::string xdg = variable("XDG_CACHE_HOME"); xdg.starts_with('/'))
        return xdg + "/rgpu/softgpu";
    if (std::string home = variable("HOME"); home.starts_with('/'))
        return home + "/.cache/rgpu/softgpu";
    return "";
}

std::optional<CompiledKernel> KernelCache::find(std::string_view key) const
{
    auto bytes = files_.find(key);
    if (!bytes) return {};
    auto kernel = from_file(key, *bytes);
    if (!kernel) files_.remove(key);
    return kernel;
}

void KernelCache::store(std::string_view key, const CompiledKernel &kernel) const
{
    static std::atomic<uint64_t> since_look{kCacheLook};  // a process looks at its first store
    const std::vector<uint8_t> bytes = to_file(key, kernel);
    if (!files_.store(key, bytes)) return;
    if (since_look.fetch_add(bytes.size()) + bytes.size() < kCacheLook) return;
    since_look = 0;
    trim();
}

}  // namespace rgpu::softgpu::exec

namespace rgpu::softgpu {

namespace {

template <class Compile>
Result<CompiledKernel> find_or_compile(const std::string &key, const Compile &compile)
{
    exec::KernelCache cache(exec::KernelCache::configured_directory(), exec::kCacheBytes);
    if (auto found = cache.find(key)) return std::move(*found);
    Result<CompiledKernel> compiled = compile();
    if (compiled) cache.store(key, *compiled);
    return compiled;
}

}  // namespace

Result<CompiledKernel> compile_cached(const PtxModule &module, std::string_view kernel)
{
    return find_or_compile(module.cache_key(kernel), [&] { return module.compile(kernel); });
}

Result<CompiledKernel> compile_cached(const PtxModule &module, std::string_view kernel,
                                      std::string_view function)
{
    return find_or_compile(module.function_key(kernel, function),
                           [&] { return module.compile_function(kernel, function); });
}

}  // namespace rgpu::softgpu
