// SPDX-License-Identifier: Apache-2.0
// The functions that a kernel calls through their addresses (rt_function), with code from the first
// call on.
//
// Belongs to the kernel's code, and owns that of the functions. Any thread. find() never waits:
// every call by every thread of a grid comes by it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "softgpu/engine.h"

namespace rgpu::softgpu::exec {

// Where loaded code begins. loader.cc
uint64_t entry_of(const LoadedKernel &);

class FunctionTable {
public:
    explicit FunctionTable(FunctionSource source) : source_(std::move(source)) {}
    ~FunctionTable();
    FunctionTable(const FunctionTable &) = delete;
    FunctionTable &operator=(const FunctionTable &) = delete;

    // Where the function's code begins; 0: it is not made yet.
    uint64_t find(uint64_t address, uint64_t signature) const;
    // Makes it, if no other thread does so at the same time: then waits for that one. Fails as the
    // source did, again at each call. Not on a fiber's stack: there is a compiler behind it.
    Result<uint64_t> make(uint64_t address, uint64_t signature);

private:
    struct Entry;
    using Made = Result<std::shared_ptr<const LoadedKernel>>;
    using Chain = std::atomic<Entry *>;

    Chain &chain(uint64_t address) { return chains_[address >> 4 & (kChains - 1)]; }
    const Chain &chain(uint64_t address) const { return chains_[address >> 4 & (kChains - 1)]; }
    Made call_source(uint64_t address, uint64_t signature) const;
    Entry *look_up(uint64_t address, uint64_t signature) const;

    // NCCL has 671 of them, of which a program calls a handful. Addresses are digests of names.
    static constexpr size_t kChains = 64;

    const FunctionSource source_;
    std::array<Chain, kChains> chains_ = {};  // entries are added in front and never go
    std::mutex adding_;
};

}  // namespace rgpu::softgpu::exec
