// SPDX-License-Identifier: Apache-2.0
// dlmopen, and what UCX finds in its environment.
#ifdef RGPU_UCX

#include <dlfcn.h>
#include <link.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "net/ucx/ucx.h"

namespace rgpu::net {

namespace {

constexpr std::string_view kPrefix = "RGPU_UCX_", kTheirs = "UCX_", kLibrary = "RGPU_UCX_LIBRARY";

struct Setting {
    const char *name, *value;
};

// Where nobody says otherwise.
constexpr Setting kSettings[] = {
    // It shares a process with a program, whose output, signals and memory functions are not its
    // own.
    {"UCX_LOG_LEVEL", "fatal"},
    {"UCX_LOG_FILE", "stderr"},
    {"UCX_HANDLE_ERRORS", "none"},
    {"UCX_ERROR_SIGNALS", ""},
    {"UCX_MEM_MMAP_HOOK_MODE", "none"},
    {"UCX_MEM_MALLOC_HOOKS", "n"},
    {"UCX_MEM_CUDA_HOOK_MODE", "none"},
    {"UCX_VFS_ENABLE", "n"},
    {"UCX_WARN_UNUSED_ENV_VARS", "n"},
    {"UCX_WARN_INVALID_CONFIG", "n"},
    // Without hooks nobody tells that memory was unmapped: what is registered is so for one
    // message.
    {"UCX_RCACHE_ENABLE", "n"},
    {"UCX_IB_REG_METHODS", "direct"},
    {"UCX_MEMTYPE_CACHE", "n"},
    // Its modules for GPUs would open a driver: ours, once more. All that is sent lies in host
    // memory.
    {"UCX_MODULES", "^cuda*,*gdr*,rocm*,ze*"},
    // A worker may not look into other processes (confine.h); POSIX shared memory does so, too, or
    // leaves its files behind.
    {"UCX_TLS", "^cma,posix"},
    // The TCP connection tells when the peer is gone.
    {"UCX_KEEPALIVE_INTERVAL", "inf"},
};

// The environment of UCX's libc: never freed.
char **settings()
{
    static auto &names = *new std::vector<std::string>;
    for (char **entry = environ; entry && *entry; ++entry) {
        const std::string_view text = *entry;
        if (text.starts_with(kTheirs) || text.starts_with(kLibrary)) continue;
        names.emplace_back(text.starts_with(kPrefix) ? text.substr(kPrefix.size() - kTheirs.size())
                                                     : text);
    }
    for (const Setting &s : kSettings) {
        const std::string begin = std::string(s.name) + "=";
        bool told = false;
        for (const std::string &name : names) told = told || name.starts_with(begin);
        if (!told) names.push_back(begin + s.value);
    }
    static auto &entries = *new std::vector<char *>;
    for (std::string &name : names) entries.push_back(name.data());
    entries.push_back(nullptr);
    return entries.data();
}

// libc goes first: libucp's constructors read their settings.
void *open_library()
{
    void *libc = dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW | RTLD_LOCAL);
    Lmid_t where = 0;
    auto *their_environ = libc ? static_cast<char ***>(dlsym(libc, "environ")) : nullptr;
    if (!their_environ || dlinfo(libc, RTLD_DI_LMID, &where) != 0) return nullptr;
    *their_environ = settings();
    // A thread's arena there would not be given back at its end.
    if (auto set = reinterpret_cast<decltype(&mallopt)>(dlsym(libc, "mallopt")))
        set(M_ARENA_MAX, 1);
    const char *named = getenv(kLibrary.data());
    return dlmopen(where, named && *named ? named : "libucp.so.0", RTLD_NOW | RTLD_LOCAL);
}

// The number of bytes of a library's list of destructors, in its dynamic section, which is
// read-only by now.
void set_to_zero(ElfW(Dyn) & entry)
{
    const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    const uintptr_t begin = reinterpret_cast<uintptr_t>(&entry) & ~(page - 1);
    const size_t bytes = reinterpret_cast<uintptr_t>(&entry + 1) - begin;
    if (mprotect(reinterpret_cast<void *>(begin), bytes, PROT_READ | PROT_WRITE) != 0) return;
    entry.d_un.d_val = 0;
    mprotect(reinterpret_cast<void *>(begin), bytes, PROT_READ);
}

}  // namespace

void Ucx::leave_standing() const
{
    link_map *map = nullptr;
    if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0) return;
    while (map->l_prev) map = map->l_prev;
    for (; map; map = map->l_next)
        for (ElfW(Dyn) *entry = map->l_ld; entry && entry->d_tag != DT_NULL; ++entry)
            if (entry->d_tag == DT_FINI_ARRAYSZ && entry->d_un.d_val) set_to_zero(*entry);
}

Result<const Ucx *> private_ucx()
{
    static Ucx &functions = *new Ucx;
    static const std::string missing = [] {
        functions.library = open_library();
        if (!functions.library) {
            const char *why = dlerror();
            return std::string(why ? why : "it cannot be opened");
        }
#define RGPU_FIND(name) \
    functions.name = reinterpret_cast<decltype(functions.name)>(dlsym(functions.library, #name)); \
    if (!functions.name) return std::string("it has no " #name);
        RGPU_UCX_FUNCTIONS(RGPU_FIND)
#undef RGPU_FIND
        functions.own_locale =
            reinterpret_cast<decltype(functions.own_locale)>(dlsym(functions.library, "uselocale"));
        if (!functions.own_locale) return std::string("it has no libc");
        functions.leave_standing();
        return std::string();
    }();
    if (!missing.empty())
        return error(ErrorKind::unsupported,
                     "there is no UCX here (%s): install libucx0 (Debian), or name its libucp.so.0 "
                     "with RGPU_UCX_LIBRARY",
                     missing.c_str());
    return &functions;
}

}  // namespace rgpu::net

#endif
