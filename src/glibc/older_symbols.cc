// SPDX-License-Identifier: Apache-2.0
// Functions that newer C libraries export under a newer version than they need: the product is
// linked with the oldest version of each, so that it loads where glibc is 2.28 (RHEL 8, Debian 10).
//
// A caller here, or in the C++ library that the product brings, finds the function of this file,
// which jumps on to the C library's: whoever looks at the return address (dlsym, dlopen) sees the
// caller itself. Before glibc 2.34 the functions of threads and of dlopen are in libraries of their
// own, which the product is linked with.

#define RGPU_OLDER_AS(name, older, version) \
    asm(".pushsection .text.older." #name ",\"ax\",@progbits\n" \
        "  .globl " #name "\n" \
        "  .hidden " #name "\n" \
        "  .type " #name ", @function\n" #name ":\n" \
        "  endbr64\n" \
        "  jmp *rgpu_older_" #name "@GOTPCREL(%rip)\n" \
        "  .size " #name ", . - " #name "\n" \
        "  .symver rgpu_older_" #name ", " older "@GLIBC_" version "\n" \
        ".popsection")
#define RGPU_OLDER(name, version) RGPU_OLDER_AS(name, #name, version)

// glibc 2.32 and 2.34: moved to libc.so.6.
RGPU_OLDER(__pthread_key_create, "2.2.5");
RGPU_OLDER(pthread_create, "2.2.5");
RGPU_OLDER(pthread_detach, "2.2.5");
RGPU_OLDER(pthread_getspecific, "2.2.5");
RGPU_OLDER(pthread_join, "2.2.5");
RGPU_OLDER(pthread_key_create, "2.2.5");
RGPU_OLDER(pthread_key_delete, "2.2.5");
RGPU_OLDER(pthread_mutex_trylock, "2.2.5");
RGPU_OLDER(pthread_once, "2.2.5");
RGPU_OLDER(pthread_rwlock_rdlock, "2.2.5");
RGPU_OLDER(pthread_rwlock_unlock, "2.2.5");
RGPU_OLDER(pthread_rwlock_wrlock, "2.2.5");
RGPU_OLDER(pthread_setname_np, "2.12");
RGPU_OLDER(pthread_setspecific, "2.2.5");
RGPU_OLDER(pthread_sigmask, "2.2.5");
RGPU_OLDER(dladdr, "2.2.5");
RGPU_OLDER(dlclose, "2.2.5");
RGPU_OLDER(dlerror, "2.2.5");
RGPU_OLDER(dlinfo, "2.3.3");
RGPU_OLDER(dlmopen, "2.3.4");
RGPU_OLDER(dlopen, "2.2.5");
RGPU_OLDER(dlsym, "2.2.5");

// glibc 2.38: binary constants of C23, which we do not read.
RGPU_OLDER_AS(__isoc23_sscanf, "__isoc99_sscanf", "2.7");
RGPU_OLDER_AS(__isoc23_strtol, "strtol", "2.2.5");
RGPU_OLDER_AS(__isoc23_strtoll, "strtoll", "2.2.5");
RGPU_OLDER_AS(__isoc23_strtoul, "strtoul", "2.2.5");
RGPU_OLDER_AS(__isoc23_strtoull, "strtoull", "2.2.5");
