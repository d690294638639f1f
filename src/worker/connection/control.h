// SPDX-License-Identifier: Apache-2.0
// The worker's control socket, by which an rgpud that was restarted finds it again.
#pragma once

#include <string>

namespace rgpu::worker {

// Listens on descriptor `fd`, which rgpud has bound, in a thread of its own; who connects learns
// the worker's pid from the kernel, and its pid and the lease's id as one line of JSON. Without
// such a descriptor it does nothing.
void serve_control(int fd, const std::string &lease);

}  // namespace rgpu::worker
