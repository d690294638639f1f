// SPDX-License-Identifier: Apache-2.0
// The bytes that a kernel's arguments make: from kernelParams (a pointer to each) or `extra` (a
// buffer).
#pragma once

#include <algorithm>

#include "interpose/code/function_info.h"
#include "interpose/mirror/mirror.h"
#include "wire/codec.h"

namespace rgpu::interpose {

class Arguments {
public:
    // Valid as long as the arguments are, for `extra` points to them.
    CUresult take(const FunctionInfo &f, void **params, void **extra)
    {
        if (params && extra) return CUDA_ERROR_INVALID_VALUE;
        if (params) {
            for (const auto &p : f.parameters) size_ = std::max<size_t>(size_, p.offset + p.bytes);
            if (size_ > sizeof inline_) large_.resize(size_);
            data_ = large_.empty() ? inline_ : large_.data();
            for (size_t i = 0; i < f.parameters.size(); i++)
                memcpy(data_ + f.parameters[i].offset, params[i], f.parameters[i].bytes);
            return mirror::any() ? mirror::look_at_parameters(data_, size_, changed_)
                                 : CUDA_SUCCESS;
        }
        if (!extra) return f.parameters.empty() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
        for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
            if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
                data_ = static_cast<uint8_t *>(extra[1]);
            else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
                size_ = *static_cast<size_t *>(extra[1]);
            else
                return CUDA_ERROR_INVALID_VALUE;
        }
        if (size_ && !data_) return CUDA_ERROR_INVALID_VALUE;
        // The end of the last parameter may be missing.
        if (size_ < f.parameter_bytes) {
            if (size_ <= f.parameters.back().offset) return CUDA_ERROR_INVALID_VALUE;
            large_.resize(f.parameter_bytes);
            memcpy(large_.data(), data_, size_);
            data_ = large_.data(), size_ = large_.size();
        }
        return mirror::any() ? mirror::look_at_parameters(data_, size_, changed_) : CUDA_SUCCESS;
    }
    // A count of bytes, and the bytes.
    void write(wire::Writer &w) const
    {
        w.value(static_cast<uint32_t>(size_));
        w.bytes(data_, size_);
    }

private:
    uint8_t inline_[1024] = {};
    std::vector<uint8_t> large_;
    std::vector<uint8_t> changed_;  // for kernels, where the program's addresses are others
    uint8_t *data_ = inline_;
    size_t size_ = 0;
};

}  // namespace rgpu::interpose
