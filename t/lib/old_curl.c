// SPDX-License-Identifier: Apache-2.0
/* A libcurl that knows no pinned keys, as one may be built: it refuses that option, and is this
 * host's libcurl in all else. REAL names that one. Of each function only the registers of the
 * arguments matter. */
#include <dlfcn.h>
#include <stdlib.h>

enum { PINNED_PUBLIC_KEY = 10230, UNKNOWN_OPTION = 48 };

typedef void *(*function)(void *, void *, void *, void *, void *);

static function real(const char *name)
{
    static void *library;
    if (!library) library = dlopen(getenv("REAL"), RTLD_NOW);
    return (function)dlsym(library, name);
}

#define PASS_ON(name) \
    void *name(void *a, void *b, void *c, void *d, void *e) { return real(#name)(a, b, c, d, e); }

PASS_ON(curl_global_init)
PASS_ON(curl_easy_init)
PASS_ON(curl_easy_cleanup)
PASS_ON(curl_easy_getinfo)
PASS_ON(curl_easy_perform)
PASS_ON(curl_easy_strerror)
PASS_ON(curl_slist_append)
PASS_ON(curl_slist_free_all)
PASS_ON(curl_multi_init)
PASS_ON(curl_multi_cleanup)
PASS_ON(curl_multi_add_handle)
PASS_ON(curl_multi_remove_handle)
PASS_ON(curl_multi_perform)
PASS_ON(curl_multi_wait)
PASS_ON(curl_multi_info_read)

int curl_easy_setopt(void *handle, int option, void *value)
{
    if (option == PINNED_PUBLIC_KEY) return UNKNOWN_OPTION;
    return ((int (*)(void *, int, ...))real("curl_easy_setopt"))(handle, option, value);
}
