// SPDX-License-Identifier: Apache-2.0
// What may wait in the kernel's buffers of a connection: a small frame goes behind all of it.
#pragma once

namespace rgpu::net {

// Bounds what is handed to the kernel before it can be sent (tcp(7), TCP_NOTSENT_LOWAT). Other
// sockets than TCP's are left as they are.
void bound_queues(int fd);

}  // namespace rgpu::net
