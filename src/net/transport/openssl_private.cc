// SPDX-License-Identifier: Apache-2.0
// dlmopen, dlopen and dlsym.
#include <dlfcn.h>
#include <unistd.h>

#include <string>

#include "net/transport/openssl.h"

namespace rgpu::net {

namespace {

constexpr const char *kVersions[] = {"3", "1.1"};

#ifdef __SANITIZE_THREAD__  // which is lost in a second libc
constexpr Lmid_t kNamespace = LM_ID_BASE;
#else
constexpr Lmid_t kNamespace = LM_ID_NEWLM;
#endif

// The directory of the shared object that this code is in.
std::string own_directory()
{
    Dl_info info{};
    if (!dladdr(reinterpret_cast<void *>(&own_directory), &info) || !info.dli_fname) return "";
    std::string path = info.dli_fname;
    size_t slash = path.rfind('/');
    return slash == path.npos ? "" : path.substr(0, slash);
}

// libcrypto goes first, so that libssl finds it wherever it lies.
void *open_in_new_namespace(const std::string &directory, const char *version)
{
    const std::string crypto = directory + "libcrypto.so." + version,
                      ssl = directory + "libssl.so." + version;
    void *first = dlmopen(kNamespace, crypto.c_str(), RTLD_NOW | RTLD_LOCAL);
    Lmid_t where = 0;
    if (!first || dlinfo(first, RTLD_DI_LMID, &where) != 0) return nullptr;
    return dlmopen(where, ssl.c_str(), RTLD_NOW | RTLD_LOCAL);
}

void *open_library()
{
    const std::string beside = own_directory() + "/openssl/";
    for (const char *version : kVersions)
        if (access((beside + "libssl.so." + version).c_str(), R_OK) == 0)
            if (void *library = open_in_new_namespace(beside, version)) return library;
    for (const char *version : kVersions)
        if (void *library = open_in_new_namespace("", version)) return library;
    return nullptr;
}

void *open_in_this_namespace()
{
    for (const char *version : kVersions)
        if (void *library =
                dlopen((std::string("libssl.so.") + version).c_str(), RTLD_NOW | RTLD_LOCAL))
            return library;
    return nullptr;
}

// Empty, or what is missing.
std::string find_functions(void *library, Openssl &functions)
{
    if (!library) {
        const char *why = dlerror();
        return why ? why : "it cannot be opened";
    }
#define RGPU_FIND(name) \
    functions.name = reinterpret_cast<decltype(functions.name)>(dlsym(library, #name)); \
    if (!functions.name) return "it has no " #name;
    RGPU_OPENSSL_FUNCTIONS(RGPU_FIND)
#undef RGPU_FIND
    return "";
}

}  // namespace

Result<const Openssl *> private_openssl()
{
    static Openssl &functions = *new Openssl;
    static const std::string missing = [] {
        void *library = open_library();
        std::string what = find_functions(library, functions);
        if (!what.empty()) return what;
        functions.own_locale =
            reinterpret_cast<decltype(functions.own_locale)>(dlsym(library, "uselocale"));
        return std::string(functions.own_locale ? "" : "it has no libc");
    }();
    if (!missing.empty())
        return error(ErrorKind::unsupported,
                     "the server wants this data connection encrypted ([rgpud] encrypt), and there "
                     "is no OpenSSL here (%s): install "
                     "libssl3 on this host or in this container",
                     missing.c_str());
    return &functions;
}

Result<const Openssl *> common_openssl()
{
    static Openssl &functions = *new Openssl;
    static const std::string missing = find_functions(open_in_this_namespace(), functions);
    if (!missing.empty())
        return error(ErrorKind::unsupported, "no OpenSSL (%s): install libssl3 on this host",
                     missing.c_str());
    return &functions;
}

}  // namespace rgpu::net
