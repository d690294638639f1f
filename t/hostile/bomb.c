// SPDX-License-Identifier: Apache-2.0
// A worker under its tenant's control, that takes of the host what it can get: threads, memory,
// address space ("mapped"), or room in rgpud's log ("log").
//
// usage: bomb KIND FILE       writes into FILE how far it came
//        bomb spin FILE       computes for ever, as any tenant may in his worker: for comparison
#include <errno.h>
#include <grp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static void *rest(void *nothing)
{
    for (;;) pause();
    return nothing;
}

static long threads(void)
{
    pthread_attr_t small;
    pthread_t thread;
    long n = 0;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    while (n < 3000 && !pthread_create(&thread, &small, rest, NULL)) n++;
    return n;
}

static long mebibytes(long most, int used)
{
    long n = 0;
    for (; n < most; ++n) {
        char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) break;
        if (used) memset(p, 1, 1 << 20);
    }
    return n;
}

static long lines(void)
{
    static const char line[] =
        "2026-01-01T00:00:00.000+00:00 rgpud error: \033[2Jthis is not true, and there is much of "
        "it xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n";
    struct timespec now, begin;
    long n = 0;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        for (int i = 0; i < 1000; ++i) n += write(2, line, sizeof line - 1) > 0;
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec - begin.tv_sec < 2);
    return n;
}

int main(int argc, char **argv)
{
    unsigned uid, gid;
    const char *identity = getenv("RGPU_WORKER_IDENTITY");
    if (argc != 3) return 2;
    if (identity && sscanf(identity, "%u:%u", &uid, &gid) == 2 &&
        (setgroups(0, NULL) || setgid(gid) || setuid(uid)))
        return 3;
    for (volatile long rounds = 0; !strcmp(argv[1], "spin");) rounds++;
    const long n = !strcmp(argv[1], "threads")  ? threads()
                   : !strcmp(argv[1], "memory") ? mebibytes(633, 1)
                   : !strcmp(argv[1], "mapped") ? mebibytes(8192, 0)
                                                : lines();
    FILE *told = fopen(argv[2], "w");
    if (!told) return 4;
    fprintf(told, "%ld\n", n);
    fclose(told);
    for (;;) pause();
}
