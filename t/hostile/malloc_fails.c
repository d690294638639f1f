// SPDX-License-Identifier: Apache-2.0
/* LD_PRELOAD: malloc and its kin, that fail at a request. Not where glibc itself ends the process
 * then, as it says in its own words: in ld.so
 * ("cannot allocate memory for thread-local data"), and for a thread-local object's destructor
 * ("failed to register TLS destructor").
 *
 * malloc_fails_at(n, many)   the n-th request from now on fails, and those behind it, so many in
 *                            all; 0: none
 * malloc_asked()             requests since then
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

static atomic_long asked, at, count;
static uintptr_t loader, loader_end, at_exit;

static int of_loader(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size, (void)data;
    if (info->dlpi_addr != loader) return 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD)
            loader_end = loader + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
    return 1;
}

__attribute__((constructor)) static void find_loader(void)
{
    loader = getauxval(AT_BASE);
    dl_iterate_phdr(of_loader, NULL);
    at_exit = (uintptr_t)dlsym(RTLD_DEFAULT, "__cxa_thread_atexit_impl");
}

static int is_fatal(uintptr_t caller)
{
    enum { kOfAtExit = 512 }; /* bytes of code, about */
    return (caller >= loader && caller < loader_end) ||
           (caller >= at_exit && caller < at_exit + kOfAtExit);
}

void malloc_fails_at(long n, long many)
{
    asked = 0;
    count = many;
    at = n;
}
long malloc_asked(void) { return asked; }

static int fails(const void *caller)
{
    const long n = at;
    if (!n || is_fatal((uintptr_t)caller)) return 0;
    const long now = ++asked;
    if (now < n || now - n >= count) return 0;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t n) { return fails(__builtin_return_address(0)) ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t of)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_calloc(n, of);
}
void *realloc(void *p, size_t n)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_realloc(p, n);
}
void *aligned_alloc(size_t align, size_t n)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_memalign(align, n);
}
int posix_memalign(void **out, size_t align, size_t n)
{
    if (fails(__builtin_return_address(0)) || !(*out = __libc_memalign(align, n))) return ENOMEM;
    return 0;
}
