// What may wait in the kernel's buffers of a connection: a small frame goes behind all of it.
#pragma once

namespace rgpu::net {

// For a connection that stands. Bounds what is handed to the kernel before it can be sent; where the peer is so near that a small window
// is enough, also what has come and was not read yet. Other sockets than TCP's are left as they are.
void bound_queues(int fd);

}  // namespace rgpu::net
