// SPDX-License-Identifier: Apache-2.0
// The execution engine of softgpu: loads compiled kernels into memory and runs grids of them on
// the CPU. Knows neither PTX nor the driver API.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "softgpu/abi.h"
#include "softgpu/compiler.h"
#include "util/result.h"

namespace rgpu::softgpu {

// The address of an undefined symbol of a kernel object that the engine does not know itself
// ("g.NAME": the module's variable NAME), or 0.
using SymbolResolver = std::function<uint64_t(std::string_view symbol)>;

class LoadedKernel;

// Makes the code of a function that a kernel calls through its address (rt_function), loaded as a
// kernel is. Called at the first such call, on any thread, for several functions at once. Fails
// with `invalid` where there is no such function. Must stay valid as long as the kernel's code
// does.
using FunctionSource = std::function<Result<std::shared_ptr<const LoadedKernel>>(
    uint64_t address, uint64_t signature)>;

// Executable code of one kernel; its memory goes when the last reference does.
class LoadedKernel {
public:
    // Relocates the object into executable memory. Any thread. Fails with `invalid` on a damaged
    // object (a cached one can be), with `unavailable` on a symbol that nobody resolves (its name
    // in the text).
    static Result<std::shared_ptr<const LoadedKernel>> load(const CompiledKernel &,
                                                            const SymbolResolver &,
                                                            FunctionSource = nullptr);
    virtual ~LoadedKernel() = default;
};

// How a grid ended when it did not end well.
enum class FaultKind {
    illegal_address,
    misaligned_address,
    assertion,
    trap,
    illegal_instruction,
    stack_overflow,
    deadlock,          // every thread of a block waits for ever: on a GPU a hang (LAUNCH_TIMEOUT)
    out_of_resources,  // no memory for its stacks, too many threads (LAUNCH_OUT_OF_RESOURCES)
};
struct Fault {
    FaultKind kind;
    uint64_t address = 0;  // of a bad access
    std::string text;      // for the log: what, in which block and thread
};

// Where device-side malloc() takes its memory from (CU_LIMIT_MALLOC_HEAP_SIZE): one per context.
// What kernels have not freed goes with it. Any thread.
class DeviceHeap {
public:
    static constexpr size_t kDefaultBytes = size_t{8} << 20;  // CUDA's default

    explicit DeviceHeap(size_t bytes = kDefaultBytes);
    ~DeviceHeap();
    DeviceHeap(const DeviceHeap &) = delete;
    DeviceHeap &operator=(const DeviceHeap &) = delete;

    void *allocate(size_t bytes);  // 16-byte aligned, or null
    bool free(void *);             // false: not an address that allocate() gave
    bool resize(size_t bytes);     // false: something was allocated already

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

struct Launch {
    Dim3 grid, block;
    uint32_t shared_bytes = 0;  // static + dynamic
    uint32_t dynamic_shared = 0;
    const void *params = nullptr;  // lives until run() returns
    bool cooperative = false;      // all blocks resident together; grid barriers work
    DeviceHeap *heap = nullptr;    // null: one of the process
    std::function<void(std::string_view)>
        print;  // device printf output, called before run() returns, one thread at a time
};

// Runs the grid on all cores (RGPU_SOFTGPU_THREADS, default all; the calling thread helps) and
// returns when its last thread has ended or a fault has stopped it. Any thread may call it, several
// at once.
std::optional<Fault> run(const LoadedKernel &, const Launch &);

// How many OS threads run blocks: what %nsmid says, and MULTIPROCESSOR_COUNT should. Blocks that
// are resident together without cooperative launch: cores() * min(32, 2048 / threads of a block).
unsigned cores();

// Compiled kernels on disk: ~/.cache/rgpu/softgpu (RGPU_SOFTGPU_CACHE; "off" = none), safe between
// processes, bounded in size. Returns the kernel from there, or compiles and stores it.
Result<CompiledKernel> compile_cached(const PtxModule &, std::string_view kernel);
// The same for a function that the kernel calls through its address.
Result<CompiledKernel> compile_cached(const PtxModule &, std::string_view kernel,
                                      std::string_view function);

}  // namespace rgpu::softgpu
