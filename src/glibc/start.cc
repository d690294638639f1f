// SPDX-License-Identifier: Apache-2.0
// How a program starts where glibc is older than 2.34: there, the C library calls the program's
// constructors only where the program hands it a function for that.

using Main = int (*)(int, char **, char **);
using Init = void (*)(int, char **, char **);
using Done = void (*)();

extern "C" {

extern const Init __init_array_start[], __init_array_end[];

int rgpu_older_start_main(Main main, int argc, char **argv, Init init, Done fini, Done loader_fini,
                          void *stack_end);
asm(".symver rgpu_older_start_main, __libc_start_main@GLIBC_2.2.5");

static void construct(int argc, char **argv, char **environment)
{
    for (const Init *init = __init_array_start; init != __init_array_end; ++init)
        (*init)(argc, argv, environment);
}

int __libc_start_main(Main main, int argc, char **argv, Init, Done, Done loader_fini,
                      void *stack_end)
{
    return rgpu_older_start_main(main, argc, argv, construct, nullptr, loader_fini, stack_end);
}

}  // extern "C"
