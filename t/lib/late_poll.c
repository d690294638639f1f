// SPDX-License-Identifier: Apache-2.0
// LD_PRELOAD: a thread that poll() has told of input gets on a moment later, as on a machine with
// more threads than processors: another may have taken the input meanwhile.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <unistd.h>

int poll(struct pollfd *fds, nfds_t n, int timeout)
{
    static int (*real)(struct pollfd *, nfds_t, int);
    if (!real) real = (int (*)(struct pollfd *, nfds_t, int))dlsym(RTLD_NEXT, "poll");
    int ready = real(fds, n, timeout);
    if (ready > 0) usleep(100);
    return ready;
}
