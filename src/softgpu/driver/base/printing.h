// SPDX-License-Identifier: Apache-2.0
// Where device printf goes: kept until the program synchronises, as CUDA does, then to its stdout;
// or to whoever asked for it with rgpu_softgpu_set_printf, at once.
#pragma once

#include <cstddef>
#include <string_view>

namespace rgpu::softgpu::driver {

// From the thread that runs a grid.
void print_from_device(std::string_view text);
// What was kept goes out. Called whenever a call has waited for the device.
void flush_prints();

}  // namespace rgpu::softgpu::driver

// Device printf of this process goes to `sink` (text without a final zero) instead of stdout,
// before the grid that printed it counts as done. A null sink means stdout again. Any thread may
// call the sink.
extern "C" void rgpu_softgpu_set_printf(void (*sink)(void *data, const char *text, size_t bytes),
                                        void *data);
