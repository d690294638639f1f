// SPDX-License-Identifier: Apache-2.0
// What a confined worker can do and what it cannot: each case in a process of its own.
#include "worker/limits/confine.h"

#include <criterion/criterion.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <thread>

using namespace rgpu;

namespace {

using worker::Filter;
constexpr Filter kFilters[] = {Filter::denies_by_name, Filter::logs, Filter::software};

// The exit status of a confined child that runs it; 250: it was not confined.
int confined(const std::function<int()> &body, Filter filter)
{
    fflush(nullptr);
    pid_t pid = fork();
    if (pid == 0) _exit(worker::confine(filter) ? body() : 250);
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 200 + WTERMSIG(status);
}

// With every filter: the status when it is 0 with all of them, else the first other one.
int confined(const std::function<int()> &body)
{
    for (Filter filter : kFilters)
        if (const int status = confined(body, filter)) return status;
    return 0;
}

// The errno of a call that must fail; 0 when it does not.
int failure_of(const std::function<long()> &call, Filter filter)
{
    return confined(
        [&] {
            errno = 0;
            return call() < 0 ? errno : 0;
        },
        filter);
}

std::string status_line(const char *name)
{
    FILE *file = fopen("/proc/self/status", "re");
    char line[256];
    std::string found;
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, name, strlen(name))) found = line;
    if (file) fclose(file);
    return found;
}

}  // namespace

Test(confine, the_kernel_says_so)
{
    cr_assert_eq(confined([] {
                     return status_line("Seccomp:") == "Seccomp:\t2\n" &&
                                    status_line("NoNewPrivs:") == "NoNewPrivs:\t1\n" &&
                                    status_line("CapEff:") == "CapEff:\t0000000000000000\n" &&
                                    status_line("CapPrm:") == "CapPrm:\t0000000000000000\n"
                                ? 0
                                : 1;
                 }),
                 0);
}

// For UCX, until its endpoint stands: then in the threads that there are already, too.
static void deny_sockets_later(Filter filter)
{
    fflush(nullptr);
    pid_t pid = fork();
    if (pid == 0) {
        auto denied = [] { return socket(AF_INET, SOCK_STREAM, 0) < 0 && errno == EPERM; };
        if (!worker::confine(filter, worker::Sockets::until_connected)) _exit(250);
        if (denied() || denied()) _exit(1);
        int go[2], done[2];
        if (pipe(go) || pipe(done)) _exit(2);
        std::thread before([&] {
            char byte;
            (void)!read(go[0], &byte, 1);
            byte = denied();
            (void)!write(done[1], &byte, 1);
        });
        if (!worker::deny_sockets() || !worker::deny_sockets()) _exit(3);
        char byte = 0;
        (void)!write(go[1], &byte, 1);
        (void)!read(done[0], &byte, 1);
        before.join();
        _exit(!denied()                             ? 4
              : !byte                               ? 5
              : socket(AF_UNIX, SOCK_STREAM, 0) < 0 ? 6
              : fork() >= 0                         ? 7
                                                    : 0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%x", status);
}

Test(confine, sockets_can_be_denied_later)
{
    for (Filter filter : kFilters) deny_sockets_later(filter);
}

// A client that offers shared memory listens on a Unix socket. The worker goes there before it has
// taken anything else of the client's.
Test(confine, a_software_gpu_s_worker_connects_until_its_client_is_known)
{
    const int service = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un any{}, address{};
    any.sun_family = AF_UNIX;
    socklen_t size = sizeof address;
    cr_assert(bind(service, reinterpret_cast<sockaddr *>(&any), sizeof any.sun_family) == 0 &&
              listen(service, 8) == 0 &&
              getsockname(service, reinterpret_cast<sockaddr *>(&address), &size) == 0);
    fflush(nullptr);
    const pid_t pid = fork();
    if (pid == 0) {
        const auto connects = [&] {
            const int s = socket(AF_UNIX, SOCK_STREAM, 0);
            return connect(s, reinterpret_cast<sockaddr *>(&address), size) == 0;
        };
        if (!worker::confine(Filter::software, worker::Sockets::connect_until_connected)) _exit(1);
        if (!connects()) _exit(2);
        if (socket(AF_INET, SOCK_STREAM, 0) >= 0) _exit(3);
        if (!worker::deny_sockets() || !worker::deny_sockets()) _exit(4);
        if (connects() || errno != EPERM) _exit(5);
        std::thread([] {}).join();  // the filter is still the one that computing needs
        _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%x", status);
    close(service);
}

Test(confine, what_would_reach_others_fails_with_eperm)
{
    char *none[] = {nullptr};
    const pid_t parent = getpid();
    char byte = 0;
    iovec here{&byte, 1}, there{&byte, 1};
    const struct {
        const char *name;
        std::function<long()> call;
    } cases[] = {
        {"execve", [&] { return execve("/bin/true", none, none); }},
        {"execveat", [&] { return syscall(SYS_execveat, AT_FDCWD, "/bin/true", none, none, 0); }},
        {"fork", [] { return fork(); }},
        {"vfork", [] { return syscall(SYS_vfork); }},
        {"clone with a namespace",
         [] { return syscall(SYS_clone, CLONE_THREAD | CLONE_NEWUSER, 0, 0, 0, 0); }},
        {"ptrace", [&] { return ptrace(PTRACE_ATTACH, parent, 0, 0); }},
        {"process_vm_readv", [&] { return process_vm_readv(parent, &here, 1, &there, 1, 0); }},
        {"kill", [&] { return kill(parent, 0); }},
        {"tgkill", [&] { return syscall(SYS_tgkill, parent, parent, 0); }},
        {"AF_INET", [] { return socket(AF_INET, SOCK_STREAM, 0); }},
        {"AF_NETLINK", [] { return socket(AF_NETLINK, SOCK_RAW, 0); }},
        {"AF_PACKET", [] { return socket(AF_PACKET, SOCK_RAW, 0); }},
        {"mount", [] { return mount("none", "/mnt", "tmpfs", 0, nullptr); }},
        {"umount", [] { return umount2("/proc", MNT_DETACH); }},
        {"unshare", [] { return unshare(CLONE_NEWUSER); }},
        {"setns", [] { return setns(0, 0); }},
        {"chroot", [] { return chroot("/"); }},
        {"fsopen", [] { return syscall(SYS_fsopen, "tmpfs", 0); }},
        {"mknod", [] { return syscall(SYS_mknod, "/tmp/x", 0, 0); }},
        {"setuid", [] { return syscall(SYS_setuid, 0); }},
        {"setgroups", [] { return syscall(SYS_setgroups, 0, nullptr); }},
        {"init_module", [] { return syscall(SYS_init_module, nullptr, 0, ""); }},
        {"finit_module", [] { return syscall(SYS_finit_module, -1, "", 0); }},
        {"bpf", [] { return syscall(SYS_bpf, BPF_MAP_CREATE, nullptr, 0); }},
        {"perf_event_open", [] { return syscall(SYS_perf_event_open, nullptr, 0, -1, -1, 0); }},
        {"keyctl", [] { return syscall(SYS_keyctl, 0, 0, 0, 0, 0); }},
        {"add_key", [] { return syscall(SYS_add_key, "user", "x", "x", 1, -3); }},
        {"io_uring_setup", [] { return syscall(SYS_io_uring_setup, 1, nullptr); }},
        {"userfaultfd", [] { return syscall(SYS_userfaultfd, 0); }},
        {"settimeofday", [] { return syscall(SYS_settimeofday, nullptr, nullptr); }},
        {"sethostname", [] { return syscall(SYS_sethostname, "x", 1); }},
        {"swapon", [] { return syscall(SYS_swapon, "/nonexistent", 0); }},
        {"syslog", [] { return syscall(SYS_syslog, 10, nullptr, 0); }},
        {"open_by_handle_at", [] { return syscall(SYS_open_by_handle_at, 0, nullptr, 0); }},
    };
    for (Filter filter : kFilters)
        for (const auto &c : cases) {
            const int failure = failure_of(c.call, filter);
            cr_expect_eq(failure, EPERM, "%s: %s", c.name, strerror(failure));
        }
}

// What nobody thought of denying.
Test(confine, a_software_gpu_has_what_is_listed_alone)
{
    const struct {
        const char *name;
        std::function<long()> call;
    } cases[] = {
        {"inotify_init1", [] { return syscall(SYS_inotify_init1, 0); }},
        {"chmod", [] { return syscall(SYS_chmod, "/nonexistent", 0); }},
        {"symlink", [] { return syscall(SYS_symlink, "x", "/nonexistent/x"); }},
        {"setpriority", [] { return syscall(SYS_setpriority, 0, 0, 5); }},
        {"landlock", [] { return syscall(444, nullptr, 0, 1); }},
        {"prlimit of another",
         [] { return syscall(SYS_prlimit64, getppid(), 0, nullptr, nullptr); }},
        {"TIOCSTI", [] { return syscall(SYS_ioctl, 0, 0x5412, "x"); }},
        {"a call that is yet to be invented", [] { return syscall(999); }},
    };
    for (const auto &c : cases) {
        cr_expect_eq(failure_of(c.call, Filter::software), EPERM, "%s", c.name);
        cr_expect_neq(failure_of(c.call, Filter::logs), EPERM, "%s is logged only", c.name);
    }
}

Test(confine, what_libraries_try_first_does_not_exist)
{
    for (Filter filter : kFilters)
        for (long call : {435L, 437L})  // clone3, openat2
            cr_expect_eq(failure_of([call] { return syscall(call, 0, 0, 0, 0); }, filter), ENOSYS);
}

Test(confine, calls_of_the_32_bit_table_fail)
{
#ifdef __x86_64__
    // getpid of i386 is 20; int 0x80 reaches it from a 64-bit program, too.
    cr_assert_eq(
        confined([] {
            long result = 20;
            asm volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
            return result == -EPERM || result == -ENOSYS ? 0 : 1;
        }),
        0);
#endif
}

Test(confine, what_computing_needs_works)
{
    cr_assert_eq(confined([] {
                     int calls = 0;
                     std::thread([&] { calls++; }).join();
                     auto code =
                         static_cast<unsigned char *>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE,
                                                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
                     if (calls != 1 || code == MAP_FAILED) return 1;
                     code[0] = 0xc3;  // ret
                     if (mprotect(code, 4096, PROT_READ | PROT_EXEC) != 0) return 2;
                     reinterpret_cast<void (*)()>(code)();
                     int pair[2];
                     if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) return 3;
                     if (memfd_create("x", MFD_CLOEXEC) < 0 || eventfd(0, 0) < 0) return 4;
                     signal(SIGUSR1, SIG_IGN);
                     if (raise(SIGUSR1) != 0 || kill(getpid(), SIGUSR1) != 0) return 5;
                     cpu_set_t cpus;
                     return sched_getaffinity(0, sizeof cpus, &cpus) == 0 &&
                                    sched_setaffinity(0, sizeof cpus, &cpus) == 0
                                ? 0
                                : 6;
                 }),
                 0);
}

Test(confine, holds_in_threads_that_are_made_later)
{
    cr_assert_eq(
        confined([] {
            int failure = 0;
            std::thread([&] { failure = socket(AF_INET, SOCK_STREAM, 0) < 0 ? errno : 0; }).join();
            return failure == EPERM ? 0 : 1;
        }),
        0);
}

// A client's connection, made a fresh socket, reaches a service of this host.
Test(confine, tcp_sockets_that_are_there_go_nowhere_else)
{
    const int service = socket(AF_INET, SOCK_STREAM, 0), theirs = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{}, any{};
    address.sin_family = any.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    cr_assert(bind(service, reinterpret_cast<sockaddr *>(&address), size) == 0 &&
              listen(service, 8) == 0 &&
              getsockname(service, reinterpret_cast<sockaddr *>(&address), &size) == 0 &&
              connect(theirs, reinterpret_cast<sockaddr *>(&address), size) == 0);
    constexpr long kCreateRuleset = 444, kVersion = 1;  // landlock_create_ruleset(2)
    const bool has_landlock = syscall(kCreateRuleset, nullptr, 0, kVersion) >= 4;
    for (Filter filter : kFilters) {
        if (filter != Filter::software && !has_landlock) continue;
        const int denied = filter == Filter::software ? EPERM : EACCES;
        const auto again = [&](auto call) {
            return failure_of(
                [&]() -> long {
                    sockaddr nowhere{};
                    nowhere.sa_family = AF_UNSPEC;
                    // The software GPU's filter denies this already.
                    if (connect(theirs, &nowhere, sizeof nowhere) && errno != EPERM) return 0;
                    return call();
                },
                filter);
        };
        cr_expect_eq(
            again([&] { return connect(theirs, reinterpret_cast<sockaddr *>(&address), size); }),
            denied, "it connects anew");
        cr_expect_eq(
            again([&] { return bind(theirs, reinterpret_cast<sockaddr *>(&any), sizeof any); }),
            denied, "it takes a port");
    }
    close(service);
    close(theirs);
}

// What rgpud comes to (connection/control.h) is bound before, and listened to by the worker itself.
Test(confine, a_unix_socket_that_is_bound_can_be_listened_to)
{
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "rgpu-confine-test-%d", getpid());
    const int bound = socket(AF_UNIX, SOCK_STREAM, 0);
    cr_assert_eq(bind(bound, reinterpret_cast<sockaddr *>(&name), sizeof name), 0);
    cr_expect_eq(confined([&] { return listen(bound, 8) == 0 ? 0 : errno; }), 0);
    close(bound);
}
