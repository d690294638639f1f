// SPDX-License-Identifier: Apache-2.0
// The disk cache: hits, damage, places that cannot be written, the bound.
#include <atomic>
#include <thread>

#include <sys/stat.h>

#include "exec_support.h"
#include "softgpu/exec/kernel_cache.h"

using namespace exec_test;
using rgpu::Result;
using rgpu::softgpu::exec::KernelCache;

namespace {

std::string key_of(char c) { return std::string(64, c); }

// A module that counts how often it is compiled.
struct Counting : PtxModule {
    std::vector<Kernel> none_k;
    std::vector<GlobalVariable> none_g;
    mutable std::atomic<int> compiled{0};

    int ptx_version() const override { return 90; }
    int target() const override { return 80; }
    const std::vector<Kernel> &kernels() const override { return none_k; }
    const std::vector<GlobalVariable> &globals() const override { return none_g; }
    std::string cache_key(std::string_view kernel) const override
    {
        return key_of(kernel == "b" ? 'b' : 'a');
    }
    Result<CompiledKernel> compile(std::string_view kernel) const override
    {
        if (kernel == "bad") return rgpu::error(rgpu::ErrorKind::invalid, "bad kernel");
        ++compiled;
        return CompiledKernel{std::vector<uint8_t>(1000, 7), std::string(kernel), true, 128};
    }
    std::string_view find_function(uint64_t, uint64_t) const override { return {}; }
    std::string function_key(std::string_view, std::string_view function) const override
    {
        return key_of(function == "g" ? 'c' : 'd');
    }
    Result<CompiledKernel> compile_function(std::string_view,
                                            std::string_view function) const override
    {
        return compile(function);
    }
};

struct Directory {
    fs::path path;
    Directory()
    {
        char name[] = "/tmp/rgpu-cache-test-XXXXXX";
        path = mkdtemp(name);
        setenv("RGPU_SOFTGPU_CACHE", path.c_str(), 1);
    }
    ~Directory() { fs::remove_all(path); }
    fs::path file(char c) const { return path / std::string(2, c) / key_of(c); }
};

void expect_kernel(const Result<CompiledKernel> &k, const char *entry)
{
    cr_assert(k.has_value());
    cr_assert_eq(k->entry, entry);
    cr_assert(k->object == std::vector<uint8_t>(1000, 7));
    cr_assert(k->per_thread);
    cr_assert_eq(k->stack_bytes, 128u);
}

}  // namespace

Test(exec_cache, compiles_once)
{
    Directory d;
    Counting module;
    for (int i = 0; i < 5; ++i) expect_kernel(compile_cached(module, "a"), "a");
    cr_assert_eq(module.compiled.load(), 1);
    expect_kernel(compile_cached(module, "b"), "b");
    cr_assert_eq(module.compiled.load(), 2);
    cr_assert(fs::exists(d.file('a')) && fs::exists(d.file('b')));
    cr_assert_eq(fs::status(d.file('a')).permissions(), fs::perms(0600));
    auto bad = compile_cached(module, "bad");
    expect_kernel(bad, "a");  // the same key: the cache does not ask for the name
}

Test(exec_cache, hands_on_the_compilers_error)
{
    Directory d;
    Counting module;
    auto bad = compile_cached(module, "bad");
    cr_assert(!bad);
    cr_assert_eq(bad.error().text, "bad kernel");
}

Test(exec_cache, recompiles_what_is_damaged)
{
    Directory d;
    Counting module;
    expect_kernel(compile_cached(module, "a"), "a");
    std::string good = slurp(d.file('a'));
    int expected = 1;
    auto with = [&](const std::string &bytes) {
        std::ofstream(d.file('a'), std::ios::binary) << bytes;
        expect_kernel(compile_cached(module, "a"), "a");
        cr_assert_eq(module.compiled.load(), ++expected);
    };
    for (size_t i = 0; i < good.size(); i += 7) {
        std::string bad = good;
        bad[i] = static_cast<char>(bad[i] ^ 0x10);
        with(bad);
    }
    for (size_t n : {size_t{0}, size_t{1}, size_t{39}, good.size() / 2, good.size() - 1})
        with(good.substr(0, n));
    with(good + "x");
    // Another key's file under this name.
    expect_kernel(compile_cached(module, "b"), "b");
    ++expected;
    with(slurp(d.file('b')));
}

Test(exec_cache, works_without_a_place)
{
    Counting module;
    for (auto place : {"off", "/proc/nowhere", "/dev/null", "relative-and-never-made/\x01"}) {
        if (std::string(place).starts_with("relative")) continue;
        setenv("RGPU_SOFTGPU_CACHE", place, 1);
        expect_kernel(compile_cached(module, "a"), "a");
    }
    unsetenv("RGPU_SOFTGPU_CACHE");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    expect_kernel(compile_cached(module, "a"), "a");
    setenv("HOME", "/nonexistent", 1);
    cr_assert_eq(KernelCache::configured_directory(), "/nonexistent/.cache/rgpu/softgpu");
    setenv("XDG_CACHE_HOME", "/x", 1);
    cr_assert_eq(KernelCache::configured_directory(), "/x/rgpu/softgpu");
}

Test(exec_cache, does_not_run_what_others_may_write)
{
    Directory d;
    Counting module;
    expect_kernel(compile_cached(module, "a"), "a");
    chmod(d.file('a').c_str(), 0666);
    expect_kernel(compile_cached(module, "a"), "a");
    cr_assert_eq(module.compiled.load(), 2);
}

Test(exec_cache, forgets_the_least_recently_used)
{
    Directory d;
    KernelCache cache(d.path, 10 * 1200);
    CompiledKernel k{std::vector<uint8_t>(1000, 1), "k", false, 0};
    const std::string digits = "0123456789abcdef";
    auto now = fs::file_time_type::clock::now();
    for (size_t i = 0; i < digits.size(); ++i) {
        cache.store(key_of(digits[i]), k);
        fs::last_write_time(d.file(digits[i]), now - std::chrono::hours(100 - i));
    }
    std::ofstream(d.path / "00" / ".tmp-1-1") << "left behind";
    fs::last_write_time(d.path / "00" / ".tmp-1-1", now - std::chrono::hours(48));
    cr_assert(cache.find(key_of('3')).has_value());  // used just now
    cache.trim();
    cr_assert(!fs::exists(d.path / "00" / ".tmp-1-1"));
    cr_assert(fs::exists(d.file('3')));
    cr_assert(fs::exists(d.file('f')));
    cr_assert(!fs::exists(d.file('0')));
    cr_assert(!fs::exists(d.file('5')));
    uint64_t total = 0;
    for (auto &e : fs::recursive_directory_iterator(d.path))
        if (e.is_regular_file()) total += e.file_size();
    cr_assert_leq(total, 10u * 1200 * 4 / 5);
    cr_assert_geq(total, 6u * 1200);
}

Test(exec_cache, many_threads_store_and_find)
{
    Directory d;
    Counting module;
    std::atomic<int> bad{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&] {
            for (int i = 0; i < 50; ++i) {
                auto k = compile_cached(module, i % 2 ? "a" : "b");
                if (!k || k->entry != (i % 2 ? "a" : "b")) ++bad;
                if (i % 10 == 0) fs::remove(d.file('a'));
            }
        });
    for (auto &t : threads) t.join();
    cr_assert_eq(bad.load(), 0);
    for (auto &e : fs::recursive_directory_iterator(d.path))
        cr_assert(!e.path().filename().string().starts_with(".tmp"));
}
