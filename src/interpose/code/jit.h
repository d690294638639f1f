// SPDX-License-Identifier: Apache-2.0
// Options of the just-in-time compiler and linker, and the words that they give back.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "calls/cuda_api.h"
#include "util/result.h"
#include "wire/codec.h"
#include "wire/jit_bodies.h"

namespace rgpu::interpose {

// As the program passed them; the arrays are the program's.
struct JitOptions {
    JitOptions() = default;
    JitOptions(unsigned count_, CUjit_option *options_, void **values_)
        : invalid(count_ > wire::kMaxJitOptions || (count_ && (!options_ || !values_))),
          count(invalid ? 0 : count_), options(options_), values(values_),
          info_room_(room(CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES)),
          error_room_(room(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES))
    {}

    bool invalid = false;  // more than there can be, or counted and not passed
    unsigned count = 0;
    CUjit_option *options = nullptr;
    void **values = nullptr;

    // The options that are numbers, as a wire::JitOptionList.
    void write(wire::Writer &w) const;
    // Puts the logs that stand at the beginning of an answer into the program's buffers. Returns
    // where they end.
    size_t take_logs(const std::vector<uint8_t> &answer, std::string *errors = nullptr) const;

private:
    size_t room(CUjit_option size) const;
    void take_log(std::string_view log, CUjit_option buffer, CUjit_option size, size_t room) const;

    // Of the program's buffers. A linker's calls fill them again and again, and the size that was
    // used goes where the room stood.
    size_t info_room_ = 0, error_room_ = 0;
};

// A file's bytes.
Result<std::string> read_whole(const char *path);

}  // namespace rgpu::interpose
