// SPDX-License-Identifier: Apache-2.0
// One message of a Unix domain socket, with the descriptors that go along with it (unix(7),
// SCM_RIGHTS).
//
// Any thread may call. Nothing raises SIGPIPE, and what is received is closed by exec. A signal
// does not end a call.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <vector>

#include "util/fd.h"

struct sockaddr_un;

namespace rgpu {

inline constexpr size_t kMostPacketDescriptors = 253;  // SCM_MAX_FD, the kernel's own limit

// Sends the bytes and copies of the descriptors as one message. `flags` as for sendmsg(2); `to`:
// where a socket that is not connected sends it. Returns 0 or an errno; EMSGSIZE: only a part of
// the bytes went.
int send_packet(int socket, const void *bytes, size_t size, std::span<const int> descriptors,
                int flags = 0, const sockaddr_un *to = nullptr);

// Receives one message of at most `size` bytes and puts its descriptors, at most `most`, behind
// `descriptors`. `flags` as for recvmsg(2). Returns the number of bytes (0: the other end has
// closed) or -1 with errno. EMSGSIZE: the message had more bytes or descriptors; its descriptors
// are closed.
ssize_t receive_packet(int socket, void *bytes, size_t size, std::vector<Fd> &descriptors,
                       size_t most, int flags = 0);

}  // namespace rgpu
