// SPDX-License-Identifier: Apache-2.0
// What glibc 2.28 does not have at all, and what our objects or the C++ library that the product
// brings call. Where the C library of the process has the function, that one is asked.
//
// The headers that declare these functions are not included: their declarations differ from one
// release to the next.
#include "glibc/newer_functions.h"

#include <cpuid.h>
#include <dlfcn.h>
#include <link.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace rgpu::glibc {
namespace {

constexpr long kNanoseconds = 1'000'000'000;

// The C library's function of that name, of the newest version; null where it has none.
template <typename Function> Function *newer(const char *name)
{
    return reinterpret_cast<Function *>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace

timespec on_other_clock(const timespec &at, const timespec &now, const timespec &other_now)
{
    timespec on_other;
    on_other.tv_sec = at.tv_sec - now.tv_sec + other_now.tv_sec;
    on_other.tv_nsec = at.tv_nsec - now.tv_nsec + other_now.tv_nsec;
    while (on_other.tv_nsec < 0) on_other.tv_nsec += kNanoseconds, --on_other.tv_sec;
    while (on_other.tv_nsec >= kNanoseconds) on_other.tv_nsec -= kNanoseconds, ++on_other.tv_sec;
    return on_other;
}

int wait_on_clock(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock,
                  const timespec *until)
{
    if (clock == CLOCK_REALTIME) return pthread_cond_timedwait(condition, mutex, until);
    timespec now, real;
    clock_gettime(clock, &now);
    clock_gettime(CLOCK_REALTIME, &real);
    const timespec at = on_other_clock(*until, now, real);
    return pthread_cond_timedwait(condition, mutex, &at);
}

const char *find_unwind_table(void *address)
{
    struct Search {
        uintptr_t address;
        const char *found;
    } search{reinterpret_cast<uintptr_t>(address), nullptr};
    auto look = [](dl_phdr_info *object, size_t, void *given) -> int {
        auto *search = static_cast<Search *>(given);
        const char *table = nullptr;
        bool here = false;
        for (int i = 0; i < object->dlpi_phnum; ++i) {
            const ElfW(Phdr) &segment = object->dlpi_phdr[i];
            const uintptr_t start = object->dlpi_addr + segment.p_vaddr;
            if (segment.p_type == PT_LOAD && search->address - start < segment.p_memsz) here = true;
            if (segment.p_type == PT_GNU_EH_FRAME) table = reinterpret_cast<const char *>(start);
        }
        if (here) search->found = table;
        return here;
    };
    dl_iterate_phdr(look, &search);
    return search.found;
}

}  // namespace rgpu::glibc

// --- under their names

using namespace rgpu::glibc;

extern "C" {

// What asks for it, is told that there may be threads.
char __libc_single_threaded = 0;

int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock,
                           const timespec *until)
{
    static const auto real = newer<decltype(wait_on_clock)>("pthread_cond_clockwait");
    return (real ? *real : wait_on_clock)(condition, mutex, clock, until);
}

// The unwinder reads the table alone of what it is told (libgcc's unwind-dw2-fde-dip.c).
int _dl_find_object(void *address, dl_find_object *found) noexcept
{
    const char *table = find_unwind_table(address);
    if (!table) return -1;
    *found = {};
    found->dlfo_eh_frame = const_cast<char *>(table);
    return 0;
}

pid_t gettid() noexcept { return static_cast<pid_t>(syscall(SYS_gettid)); }

// As its header, which only libraries newer than 2.32 have, declares it. Of the features, it knows
// those that src/util asks about; none needs more of the system than SSE does.
struct Leaf {
    unsigned of_processor[4], active[4];
};
const void *__x86_get_cpuid_feature_leaf(unsigned index)
{
    using Get = const void *(unsigned);
    static const auto real = newer<Get>("__x86_get_cpuid_feature_leaf");
    if (real) return real(index);
    static const auto leaves = [] {
        struct {
            Leaf leaf[2];
        } all{};
        unsigned a, b, c, d;
        if (__get_cpuid(1, &a, &b, &c, &d))
            all.leaf[0].of_processor[2] = all.leaf[0].active[2] = c & (bit_SSSE3 | bit_SSE4_1);
        if (__get_cpuid_count(7, 0, &a, &b, &c, &d))
            all.leaf[1].of_processor[1] = all.leaf[1].active[1] = b & bit_SHA;
        return all;
    }();
    static const Leaf none{};
    return index < 2 ? &leaves.leaf[index] : &none;
}

int __fxstat(int version, int fd, void *status);
int __xstat(int version, const char *path, void *status);
int __lxstat(int version, const char *path, void *status);
int __fxstatat(int version, int folder, const char *path, void *status, int flags);
constexpr int kStatVersion = 1;  // of x86-64
int fstat(int fd, void *status) { return __fxstat(kStatVersion, fd, status); }
int fstat64(int fd, void *status) { return __fxstat(kStatVersion, fd, status); }
int stat(const char *path, void *status) { return __xstat(kStatVersion, path, status); }
int stat64(const char *path, void *status) { return __xstat(kStatVersion, path, status); }
int lstat(const char *path, void *status) { return __lxstat(kStatVersion, path, status); }
int lstat64(const char *path, void *status) { return __lxstat(kStatVersion, path, status); }
int fstatat(int folder, const char *path, void *status, int flags)
{
    return __fxstatat(kStatVersion, folder, path, status, flags);
}
int fstatat64(int folder, const char *path, void *status, int flags)
{
    return __fxstatat(kStatVersion, folder, path, status, flags);
}

}  // extern "C"
