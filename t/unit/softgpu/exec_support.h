// SPDX-License-Identifier: Apache-2.0
// What the engine's tests share: kernels compiled with g++ from exec_kernels.inc (once per build
// directory and content) and a short way to run one.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include <criterion/criterion.h>
#include <unistd.h>

#include "softgpu/engine.h"

namespace exec_test {

using namespace rgpu::softgpu;
namespace fs = std::filesystem;

inline std::string slurp(const fs::path &path)
{
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

// The object that g++ makes of the source; kept beside the test program under a name of its
// content.
inline std::vector<uint8_t> compile_source(const fs::path &source, const std::string &flags = "")
{
    fs::path tree = fs::path(__FILE__).parent_path().parent_path().parent_path().parent_path();
    if (tree.empty()) tree = ".";
    std::string key = slurp(source) + slurp(tree / "src/softgpu/abi.h") + flags;
    cr_assert(!slurp(source).empty(), "%s: run from the top of the source tree", source.c_str());
    fs::path object = fs::read_symlink("/proc/self/exe").parent_path() /
                      ("kernels-" + std::to_string(std::hash<std::string>{}(key)) + ".o");
    if (!fs::exists(object)) {
        fs::path temporary = object.string() + "." + std::to_string(getpid());
        std::string command = "g++ -std=c++20 -O2 -fPIC -fno-exceptions -x c++ " + flags + " -I'" +
                              (tree / "src").string() + "' -c '" + source.string() + "' -o '" +
                              temporary.string() + "'";
        cr_assert_eq(system(command.c_str()), 0, "%s", command.c_str());
        fs::rename(temporary, object);
    }
    std::string bytes = slurp(object);
    return {bytes.begin(), bytes.end()};
}

inline fs::path kernels_source() { return fs::path(__FILE__).parent_path() / "exec_kernels.inc"; }

inline CompiledKernel compiled(const std::string &name, bool per_thread = true,
                               uint32_t stack = 1024)
{
    static const std::vector<uint8_t> object = compile_source(kernels_source());
    return {object, name, per_thread, stack};
}

inline uint64_t g_counter_value = 0;

inline uint64_t resolve(std::string_view symbol)
{
    return symbol == "g.counter" ? reinterpret_cast<uint64_t>(&g_counter_value) : 0;
}

inline std::shared_ptr<const LoadedKernel> load(const std::string &name, bool per_thread = true,
                                                uint32_t stack = 1024)
{
    auto kernel = LoadedKernel::load(compiled(name, per_thread, stack), resolve);
    cr_assert(kernel.has_value(), "%s: %s", name.c_str(),
              kernel ? "" : kernel.error().text.c_str());
    return *kernel;
}

struct Shape {
    Dim3 grid{1, 1, 1}, block{32, 1, 1};
    uint32_t shared = 0;
    bool cooperative = false;
    std::function<void(std::string_view)> print = nullptr;
    DeviceHeap *heap = nullptr;
};

// Each parameter takes 8 bytes.
template <class T> uint64_t word(T value)
{
    static_assert(sizeof value <= 8);
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    return bits;
}

template <class... P>
std::optional<Fault> launch(const LoadedKernel &kernel, const Shape &shape, P... parameters)
{
    uint64_t block[] = {word(parameters)..., 0};
    Launch l;
    l.grid = shape.grid;
    l.block = shape.block;
    l.shared_bytes = shape.shared;
    l.params = block;
    l.cooperative = shape.cooperative;
    l.print = shape.print;
    l.heap = shape.heap;
    return run(kernel, l);
}

// Runs it and expects it to end well.
template <class... P>
void launch_ok(const LoadedKernel &kernel, const Shape &shape, P... parameters)
{
    auto fault = launch(kernel, shape, parameters...);
    cr_assert(!fault, "%s", fault ? fault->text.c_str() : "");
}

template <class... P>
Fault launch_fault(const LoadedKernel &kernel, const Shape &shape, P... parameters)
{
    auto fault = launch(kernel, shape, parameters...);
    cr_assert(fault.has_value(), "the kernel ended well");
    return *fault;
}

}  // namespace exec_test
