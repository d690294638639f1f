// SPDX-License-Identifier: Apache-2.0
// The options that come with an image to load: where its log goes, how many registers a kernel may
// have.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include "calls/cuda_api.h"

namespace rgpu::softgpu::driver {

// Refers to the caller's arrays, and lives for one call. valid() comes first: the other functions
// read what it checks. Values are passed as pointers that are numbers. The others are about code
// generation for real GPUs, and have no meaning here.
class JitOptions {
public:
    JitOptions(unsigned count, CUjit_option *options, void **values)
        : count_(count), options_(options), values_(values)
    {}

    bool valid() const { return !count_ || (options_ && values_); }
    // CU_JIT_MAX_REGISTERS; 0 where it was not given.
    unsigned max_registers() const
    {
        void **value = find(CU_JIT_MAX_REGISTERS);
        return value ? static_cast<unsigned>(reinterpret_cast<uintptr_t>(*value)) : 0;
    }
    // Puts the texts where the caller wants errors, and what there is to know.
    void write_logs(const std::string &errors, const std::string &information = "") const
    {
        write(CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, errors);
        write(CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, information);
    }

private:
    void **find(CUjit_option which) const
    {
        for (unsigned i = 0; i < count_; i++)
            if (options_[i] == which) return &values_[i];
        return nullptr;
    }
    // The size option gives the room, and gets how much of it was used.
    void write(CUjit_option buffer, CUjit_option size, const std::string &text) const
    {
        void **where = find(buffer), **room = find(size);
        if (!where || !*where || !room) return;
        const size_t bytes = static_cast<unsigned>(reinterpret_cast<uintptr_t>(*room));
        if (!bytes) return;
        const size_t n = text.size() < bytes ? text.size() : bytes - 1;
        memcpy(*where, text.data(), n);
        static_cast<char *>(*where)[n] = 0;
        *room = reinterpret_cast<void *>(n ? n + 1 : 0);
    }

    unsigned count_;
    CUjit_option *options_;
    void **values_;
};

}  // namespace rgpu::softgpu::driver
