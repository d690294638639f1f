// SPDX-License-Identifier: Apache-2.0
// A clock that is an hour ahead, for LD_PRELOAD.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <sys/time.h>
#include <time.h>
#define AHEAD 3600
time_t time(time_t *at)
{
    time_t (*real)(time_t *) = (time_t(*)(time_t *))dlsym(RTLD_NEXT, "time");
    time_t now = real(NULL) + AHEAD;
    if (at) *at = now;
    return now;
}
int gettimeofday(struct timeval *tv, void *tz)
{
    int (*real)(struct timeval *, void *) =
        (int (*)(struct timeval *, void *))dlsym(RTLD_NEXT, "gettimeofday");
    int rc = real(tv, tz);
    tv->tv_sec += AHEAD;
    return rc;
}
int clock_gettime(clockid_t id, struct timespec *ts)
{
    int (*real)(clockid_t, struct timespec *) =
        (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int rc = real(id, ts);
    if (id == CLOCK_REALTIME) ts->tv_sec += AHEAD;
    return rc;
}
