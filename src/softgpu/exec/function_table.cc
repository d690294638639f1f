// SPDX-License-Identifier: Apache-2.0
#include "softgpu/exec/function_table.h"

#include <exception>
#include <optional>
#include <string>

namespace rgpu::softgpu::exec {

struct FunctionTable::Entry {
    uint64_t address = 0, signature = 0;
    Entry *next = nullptr;
    std::atomic<uint64_t> code{0};
    std::mutex making;  // guards what follows
    std::shared_ptr<const LoadedKernel> owner;
    std::optional<Error> failed;
};

// Its exceptions (memory) go no further: above are threads of the engine.
FunctionTable::Made FunctionTable::call_source(uint64_t address, uint64_t signature) const
{
    if (!source_) return Error{ErrorKind::invalid, "a call of a function that the kernel lacks"};
    try {
        return source_(address, signature);
    } catch (const std::exception &e) {
        return Error{ErrorKind::exhausted, std::string("no code for a function: ") + e.what()};
    }
}

FunctionTable::~FunctionTable()
{
    for (Chain &c : chains_)
        for (Entry *e = c.load(std::memory_order_acquire); e;) delete std::exchange(e, e->next);
}

FunctionTable::Entry *FunctionTable::look_up(uint64_t address, uint64_t signature) const
{
    Entry *e = chain(address).load(std::memory_order_acquire);
    while (e && (e->address != address || e->signature != signature)) e = e->next;
    return e;
}

uint64_t FunctionTable::find(uint64_t address, uint64_t signature) const
{
    const Entry *e = look_up(address, signature);
    return e ? e->code.load(std::memory_order_acquire) : 0;
}

Result<uint64_t> FunctionTable::make(uint64_t address, uint64_t signature)
{
    Entry *e;
    {
        std::lock_guard lock(adding_);
        e = look_up(address, signature);
        if (!e) {
            e = new Entry;
            e->address = address;
            e->signature = signature;
            e->next = chain(address).load(std::memory_order_relaxed);
            chain(address).store(e, std::memory_order_release);
        }
    }
    std::lock_guard lock(e->making);
    if (e->failed) return *e->failed;
    if (e->owner) return e->code.load(std::memory_order_relaxed);
    Made made = call_source(address, signature);
    if (!made) {
        e->failed = made.error();
        return std::move(made).error();
    }
    e->owner = std::move(*made);
    const uint64_t code = entry_of(*e->owner);
    e->code.store(code, std::memory_order_release);
    return code;
}

}  // namespace rgpu::softgpu::exec
