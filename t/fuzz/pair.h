// SPDX-License-Identifier: Apache-2.0
// Two sockets that are connected to each other: what is to be read, and its peer.
#pragma once

#include <sys/socket.h>

#include "util/fd.h"

namespace rgpu::fuzz {

struct Pair {
    Fd ours, theirs;
    Pair()
    {
        int ends[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) __builtin_trap();
        ours.reset(ends[0]);
        theirs.reset(ends[1]);
    }
};

}  // namespace rgpu::fuzz
