// What may wait in the kernel's buffers of a connection: a small frame goes behind all of it.
#pragma once

namespace rgpu::net {

// Bounds what is handed to the kernel before it can be sent (tcp(7), TCP_NOTSENT_LOWAT). Other sockets than TCP's are left as they are.
void bound_queues(int fd);

// For an end that reads more slowly than the other can send, as a worker does, which hands on what it reads: where both are on one host, bounds what
// has come and was not read. What waits there for long has left the processors' caches when it is read, and there is no network that must be filled.
// One to two MiB, by kernel; with one that cannot (before Linux 5.15), and on other connections, its own bound stays (tcp(7), tcp_rmem). To be
// called before much has come: what the kernel has granted it does not take back.
void bound_unread_on_one_host(int fd);

}  // namespace rgpu::net
