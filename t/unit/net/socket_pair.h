// SPDX-License-Identifier: Apache-2.0
// Two ends of a connection in one process.
#pragma once

#include <criterion/criterion.h>
#include <sys/socket.h>

#include <utility>

#include "util/fd.h"

inline std::pair<rgpu::Fd, rgpu::Fd> pair_of_sockets()
{
    int ends[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    return {rgpu::Fd(ends[0]), rgpu::Fd(ends[1])};
}
