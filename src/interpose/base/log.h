// SPDX-License-Identifier: Apache-2.0
// Messages to the user's standard error: few, each a sentence that names the thing and the cure.
#pragma once

namespace rgpu::interpose {

// "rgpu: ..." and a newline, in one write.
[[gnu::format(printf, 1, 2)]] void say(const char *format, ...);

}  // namespace rgpu::interpose
