// SPDX-License-Identifier: Apache-2.0
// Locks on single bytes of a file, which the kernel takes back when their process dies.
#pragma once

#include <fcntl.h>

#include <cerrno>

namespace rgpu::worker {

// `command` is F_OFD_SETLK, F_OFD_SETLKW or F_OFD_GETLK; `type` F_RDLCK, F_WRLCK or F_UNLCK.
// Returns -errno, or the type of lock that is (F_OFD_GETLK: that another holds).
inline int lock_byte(int fd, int command, off_t byte, short type)
{
    struct flock l = {};
    l.l_type = type;
    l.l_whence = SEEK_SET;
    l.l_start = byte;
    l.l_len = 1;
    int rc;
    while ((rc = fcntl(fd, command, &l)) < 0 && errno == EINTR) {}
    return rc < 0 ? -errno : l.l_type;
}

}  // namespace rgpu::worker
