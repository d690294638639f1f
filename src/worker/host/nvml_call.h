// SPDX-License-Identifier: Apache-2.0
// A call of NVML, as a client asked for it: what is between taking it apart and carrying it out.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "calls/nvml.h"

namespace rgpu::worker {

// What a pointer of the call points to.
struct NvmlBuffer {
    calls::NvmlParameter parameter;
    uint32_t count = 0;           // room of a text or list, number of f's
    std::vector<uint64_t> words;  // aligned for any struct
    size_t bytes = 0;

    void *data() { return words.data(); }
    // A number, as wide as what the pointer points to, 64 bits at most.
    void set(uint64_t value) { memcpy(data(), &value, bytes < 8 ? bytes : 8); }
};

struct NvmlCall {
    const calls::NvmlFunction *function = nullptr;
    int device = 0;
    int peer = -1;                 // of a function with another device
    std::vector<uint32_t> values;  // those by value, in order
    std::vector<NvmlBuffer> buffers;
};

// What a software GPU answers (an NvmlResult).
int answer_software(NvmlCall &call);

}  // namespace rgpu::worker
