// Options of the just-in-time compiler and linker, and the words that they give back.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "calls/cuda_api.h"
#include "util/result.h"
#include "wire/codec.h"

namespace rgpu::interpose {

// As the program passed them; the arrays are the program's.
struct JitOptions {
    unsigned count = 0;
    CUjit_option *options = nullptr;
    void **values = nullptr;

    // The options that are numbers, as count and pairs (option, value).
    void write(wire::Writer &w) const;
    // Puts the logs that stand at the beginning of an answer into the program's buffers. Returns where they end.
    size_t take_logs(const std::vector<uint8_t> &answer, std::string *errors = nullptr) const;

private:
    void take_log(std::string_view log, CUjit_option buffer, CUjit_option size) const;
};

// A file's bytes.
Result<std::string> read_whole(const char *path);

}  // namespace rgpu::interpose
