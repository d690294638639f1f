// The worker's control socket, by which an rgpud that was restarted finds it again.
#pragma once

namespace rgpu::worker {

// Listens on descriptor `fd`, which rgpud has bound, in a thread of its own; who connects learns
// the worker's pid from the kernel, and its pid and lease as one line of JSON. Without such a
// descriptor it does nothing.
void serve_control(int fd);

}  // namespace rgpu::worker
