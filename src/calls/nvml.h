// SPDX-License-Identifier: Apache-2.0
// The functions of NVML that are asked of the server: their parameters and what a software GPU
// answers, from nvml.def. Both ends read these lines; nvml.h is not needed.
//
// Behind the device, a function's parameters are a text, one letter each:
//
//   v     32 bits by value           p     another device
//   oN    a pointer to N bytes, which go both ways
//   x     a pointer to a struct whose first 32 bits say its size (NVML_STRUCT_VERSION)
//   s     a text: a pointer and how much room there is
//   aN    a list: a pointer to how many (room, then found), and one to N bytes each
//   fN    how many by value, and a pointer to N bytes each, which go both ways
//
// What a software GPU answers is a number for each pointer ("0 0"), "-" for
// NVML_ERROR_NOT_SUPPORTED, or "*" where a function answers it: in worker/host/nvml_software.cc for
// programs on other hosts, in softgpu/nvml/answers.cc for those beside the software GPU.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace rgpu::calls {

struct NvmlParameter {
    char kind = 'v';
    uint32_t bytes = 0;  // of o, a and f
};

struct NvmlFunction {
    std::string_view name, parameters, software;
    int apart = -1;  // of two devices
};

// By name; null where it is none that is forwarded.
const NvmlFunction *find_nvml(std::string_view name);

// Of a line's text, in order.
std::vector<NvmlParameter> nvml_parameters(std::string_view text);

// The numbers that a software GPU answers, in order; none where it answers no numbers.
std::vector<uint64_t> nvml_numbers(const NvmlFunction &);

// How much of lists and structs crosses the wire.
inline constexpr uint32_t kMostNvmlBytes = 1 << 16;

// nvml.h's numbers, for who does not have it.
enum NvmlResult : int {
    kNvmlSuccess = 0,
    kNvmlUninitialized = 1,
    kNvmlInvalidArgument = 2,
    kNvmlNotSupported = 3,
    kNvmlNoPermission = 4,
    kNvmlNotFound = 6,
    kNvmlInsufficientSize = 7,
    kNvmlFunctionNotFound = 13,
    kNvmlGpuIsLost = 15,
    kNvmlMemory = 20,
    kNvmlArgumentVersionMismatch = 25,
    kNvmlUnknown = 999,
};

}  // namespace rgpu::calls
