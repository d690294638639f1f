// SPDX-License-Identifier: Apache-2.0
// Device printf: CUDA's format rules on CUDA's packed arguments.
#pragma once

#include <string>

namespace rgpu::softgpu::exec {

// Appends the formatted text; the number of arguments used. `arguments` holds each at its natural
// alignment: ints of 4 bytes; doubles, pointers and long ints of 8. Both may be bad addresses:
// nothing is lost when reading them faults and this never returns, but what `out` holds.
int format_device(std::string &out, const char *format, const void *arguments);

}  // namespace rgpu::softgpu::exec
