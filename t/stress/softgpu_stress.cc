// SPDX-License-Identifier: Apache-2.0
// Functions that kernels call through their addresses, made while grids run, for the thread
// sanitizer (Criterion does not start under it): softgpu_stress [SECONDS]
//
// Kernels and functions are this program's own code, which the engine runs as it runs compiled
// code. In each round several grids of one kernel, whose table is empty, run at once; their threads
// are fibers of several OS threads, and call sixteen functions. Ends with 1 where a function was
// made twice, or a thread got another one than it called.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <thread>
#include <vector>

#include "softgpu/engine.h"
#include "softgpu/exec/loaded_kernel.h"

using namespace rgpu;
using namespace rgpu::softgpu;
using namespace rgpu::softgpu::exec;

namespace {

constexpr uint64_t kFunctions = 16, kSignature = 5;

void fail(const char *what)
{
    fprintf(stderr, "softgpu_stress: %s\n", what);
    exit(1);
}

using Code = bool(ThreadState *, uint64_t *);
template <uint64_t N> bool function(ThreadState *t, uint64_t *result)
{
    if (t->lane % 4 == N % 4) rt_yield(t);
    *result = N;
    return false;
}
template <size_t... N> Code *numbered(uint64_t n, std::index_sequence<N...>)
{
    static constexpr Code *all[] = {function<N>...};
    return all[n];
}

// What the grid was given: where each thread stores how often it got what it called.
void kernel(ThreadState *t)
{
    auto *rights = *reinterpret_cast<std::atomic<uint32_t> *const *>(t->block->grid->params);
    uint32_t right = 0;
    for (uint64_t i = 0; i < kFunctions; ++i) {
        const uint64_t n = (i + t->lane) % kFunctions;
        uint64_t got = kFunctions;
        reinterpret_cast<Code *>(rt_function(t, n << 4, kSignature))(t, &got);
        right += got == n;
    }
    *rights += right;
}

std::shared_ptr<const LoadedKernel> code_at(uint64_t entry, FunctionSource source)
{
    return std::make_shared<KernelCode>(nullptr, 1, entry, true, size_t{64} << 10,
                                        std::move(source));
}

void round()
{
    std::atomic<uint32_t> made[kFunctions] = {}, rights = 0;
    const auto source = [&](uint64_t address,
                            uint64_t) -> Result<std::shared_ptr<const LoadedKernel>> {
        ++made[address >> 4];
        std::this_thread::yield();
        return code_at(reinterpret_cast<uint64_t>(
                           numbered(address >> 4, std::make_index_sequence<kFunctions>())),
                       nullptr);
    };
    const auto loaded = code_at(reinterpret_cast<uint64_t>(&kernel), source);
    constexpr uint32_t kGrids = 3, kBlocks = 4, kThreads = 64;
    std::vector<std::thread> streams;
    std::atomic<uint32_t> *parameter = &rights;
    for (uint32_t g = 0; g < kGrids; ++g)
        streams.emplace_back([&] {
            Launch l;
            l.grid = {kBlocks, 1, 1};
            l.block = {kThreads, 1, 1};
            l.params = &parameter;
            if (run(*loaded, l)) fail("a grid failed");
        });
    for (std::thread &s : streams) s.join();
    if (rights != kGrids * kBlocks * kThreads * kFunctions) fail("a thread got another function");
    for (const auto &m : made)
        if (m != 1) fail("a function was made more than once, or not at all");
}

}  // namespace

int main(int argc, char **argv)
{
    const time_t end = time(nullptr) + (argc > 1 ? atoi(argv[1]) : 5);
    unsigned rounds = 0;
    for (; rounds == 0 || time(nullptr) < end; ++rounds) round();
    printf("softgpu_stress: %u rounds\n", rounds);
    return 0;
}
