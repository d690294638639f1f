// SPDX-License-Identifier: Apache-2.0
// Options of the just-in-time compiler and linker as they come off the wire, with log buffers of
// our own.
#pragma once

#include <cstdint>
#include <vector>

#include "calls/cuda_api.h"
#include "util/result.h"
#include "wire/codec.h"

namespace rgpu::worker {

struct Jit {
    std::vector<CUjit_option> options;
    std::vector<void *> values;
    std::vector<char> info, errors;

    // Reads a wire::JitOptionList. Fails on more options than there are.
    Result<void> read(wire::Reader &r);
    // Adds the log buffers. Once, before the driver gets the options.
    void add_logs();
    unsigned count() const { return static_cast<unsigned>(options.size()); }
    // Both logs, as every answer of a load or link begins.
    void write_logs(wire::Writer &w) const;

private:
    void add(CUjit_option option, const void *value);
};

}  // namespace rgpu::worker
