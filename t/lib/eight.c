// SPDX-License-Identifier: Apache-2.0
// Runs a program's main in several threads of one process: LD_PRELOAD=eight.so, EIGHT=8 (threads, 8
// unless set).
//
// The threads begin together. Exit status: the largest of theirs.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

typedef int Main(int, char **, char **);
typedef int Start(Main *, int, char **, void (*)(void), void (*)(void), void (*)(void), void *);

static struct {
    Main *main;
    int argc;
    char **argv, **envp;
} program;
static pthread_barrier_t together;

static void *one(void *unused)
{
    (void)unused;
    pthread_barrier_wait(&together);
    return (void *)(long)program.main(program.argc, program.argv, program.envp);
}

static int all(int argc, char **argv, char **envp)
{
    const char *told = getenv("EIGHT");
    int n = told ? atoi(told) : 8, worst = 0;
    pthread_t threads[64];
    if (n < 1 || n > 64) return 125;
    program.argc = argc, program.argv = argv, program.envp = envp;
    pthread_barrier_init(&together, NULL, (unsigned)n);
    for (int i = 0; i < n; i++)
        if (pthread_create(&threads[i], NULL, one, NULL)) return 125;
    for (int i = 0; i < n; i++) {
        void *status;
        pthread_join(threads[i], &status);
        if ((long)status > worst) worst = (int)(long)status;
    }
    return worst;
}

int __libc_start_main(Main *main, int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*rtld_fini)(void), void *stack_end)
{
    program.main = main;
    return ((Start *)dlsym(RTLD_NEXT, "__libc_start_main"))(all, argc, argv, init, fini, rtld_fini,
                                                            stack_end);
}
