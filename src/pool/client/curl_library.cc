// SPDX-License-Identifier: Apache-2.0
#include "pool/client/curl_library.h"

#include <dlfcn.h>

namespace rgpu::pool {
namespace {

// Debian's second one has GnuTLS in the place of OpenSSL.
constexpr const char *kNames[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};

Result<CurlLibrary> open_library()
{
    void *library = nullptr;
    for (const char *name : kNames)
        if (!library) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return error(ErrorKind::unsupported,
                     "rgpu.conf has it asked in TLS (pin or ca_file), and this host has no "
                     "libcurl.so.4: install libcurl4 (Debian) or libcurl (RHEL)");
    CurlLibrary found;
#define RGPU_FIND(name) \
    if (void *symbol = dlsym(library, #name)) \
        (found.name) = reinterpret_cast<decltype(found.name)>(symbol); \
    else \
        return error(ErrorKind::unsupported, "this host's libcurl.so.4 has no %s", #name);
    RGPU_CURL_FUNCTIONS(RGPU_FIND)
#undef RGPU_FIND
    if ((found.curl_global_init)(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return error(ErrorKind::internal, "libcurl cannot be initialised");
    return found;
}

}  // namespace

Result<const CurlLibrary *> curl_library()
{
    static const Result<CurlLibrary> library = open_library();
    if (!library) return library.error();
    return &*library;
}

}  // namespace rgpu::pool
