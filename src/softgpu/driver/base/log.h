// SPDX-License-Identifier: Apache-2.0
// One line on stderr for what a person must know and an error code cannot say.
#pragma once

namespace rgpu::softgpu::driver {

// Prints "rgpu softgpu: <text>". Any thread.
[[gnu::format(printf, 1, 2)]] void complain(const char *format, ...);

}  // namespace rgpu::softgpu::driver
