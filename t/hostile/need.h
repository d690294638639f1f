// SPDX-License-Identifier: Apache-2.0
/* For programs that get into need: of threads, addresses, descriptors or memory. They use one
 * library only, so that whatever ends them is that library's fault.
 *
 *   library           what they opened
 *   CALL(name, ...)   a call of it, whose result is printed ("name RESULT", where not quiet)
 *   EXPECT(what)      in a function with "int right": "wrong: WHAT" where it is not so
 *   work              theirs: some of all that the library offers, and whether what came was right
 *   limited, walk     the program's work in need; an exit status. For walk, LD_PRELOAD has
 *                     malloc_fails.c. GUARDED_SHOW=1 prints what it does in its processes
 */
#pragma once

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int work(void);

static void *library;
static int quiet;
static unsigned calls_failed;

/* printf would ask for memory. */
static void tell(const char *call, int r)
{
    char line[128];
    int n = snprintf(line, sizeof line, "%s %d\n", call, r);
    if (!quiet && write(1, line, (size_t)n) < 0) _exit(9);
}

static int is_right(int yes, const char *what)
{
    char line[128];
    int n = snprintf(line, sizeof line, "wrong: %s\n", what);
    if (!yes && !quiet && write(1, line, (size_t)n) < 0) _exit(9);
    return yes;
}
#define EXPECT(what) (right &= is_right((what) != 0, #what))

#define CALL(name, ...) \
    ({ \
        static __typeof__(&name) found_; \
        if (!found_) found_ = (__typeof__(&name))dlsym(library, #name); \
        const __typeof__(found_(__VA_ARGS__)) result_ = found_(__VA_ARGS__); \
        if (result_) calls_failed++; \
        tell(#name, (int)result_); \
        result_; \
    })

static rlim_t used(void)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%lu", &pages) != 1) exit(9);
    fclose(f);
    return (rlim_t)pages * 4096;
}

/* Works below a limit, raises it again, and works once more. */
static int limited(const char *what, unsigned long n)
{
    const int as = !strcmp(what, "as");
    const int which = as ? RLIMIT_AS : !strcmp(what, "nproc") ? RLIMIT_NPROC : RLIMIT_NOFILE;
    struct rlimit all, few;
    getrlimit(which, &all);
    few = all;
    few.rlim_cur = as ? used() + ((rlim_t)n << 20) : n;
    if (setrlimit(which, &few)) return perror("setrlimit"), 9;
    int right = work();
    setrlimit(which, &all);
    tell("again", 0);
    calls_failed = 0;
    right &= work();
    tell("failed", calls_failed);
    return !right;
}

/* A process for each request for memory that fails, and "many" behind it; then the work is done
 * again, with memory. */
static int walk(int from, int to, int step, long many)
{
    void (*fail_at)(long, long) = (void (*)(long, long))dlsym(RTLD_DEFAULT, "malloc_fails_at");
    long (*asked)(void) = (long (*)(void))dlsym(RTLD_DEFAULT, "malloc_asked");
    if (!fail_at || !asked) return fprintf(stderr, "no malloc_fails.so\n"), 9;
    int bad = 0, reached = 1;
    quiet = 1;
    for (int n = from; n <= to && reached; n += step) {
        const pid_t child = fork();
        if (!child) {
            alarm(30);
            fail_at(n, many);
            if (getenv("GUARDED_SHOW")) quiet = 0;
            int right = work();
            const int was_reached = asked() >= n;
            fail_at(0, 0);
            right &= work();
            _exit(right ? was_reached ? 0 : 42 : 1);
        }
        int status;
        waitpid(child, &status, 0);
        if (WIFSIGNALED(status))
            printf("request %d: signal %d\n", n, WTERMSIG(status)), bad = 1;
        else if (WEXITSTATUS(status) == 42)
            reached = 0, printf("requests %d\n", n);
        else if (WEXITSTATUS(status))
            printf("request %d: status %d\n", n, WEXITSTATUS(status)), bad = 1;
        fflush(stdout);
    }
    return bad;
}
