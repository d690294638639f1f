// SPDX-License-Identifier: Apache-2.0
// Makes the filters of system calls that workers install (worker/limits/confine.h): prints them as
// arrays of sock_filter (seccomp(2)). Run when rgpu is built: a worker that makes them itself with
// libseccomp, which is started for each program, takes a tenth longer to start.
#include <linux/filter.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <memory>
#include <span>
#include <vector>

#include "worker/filter/own_pid.h"

namespace {

using rgpu::serverd::kOwnPid;

// Newer than libseccomp 2.5.4 and Debian 12's headers: arch/x86/entry/syscalls/syscall_64.tbl.
constexpr int kMountSetattr = 442, kMoveMount = 429, kOpenTreeAttr = 467, kStatmount = 457,
              kListmount = 458;

constexpr int kDenied[] = {
    // other programs, other processes
    SCMP_SYS(execve), SCMP_SYS(execveat), SCMP_SYS(fork), SCMP_SYS(vfork), SCMP_SYS(ptrace),
    SCMP_SYS(process_vm_readv), SCMP_SYS(process_vm_writev), SCMP_SYS(process_madvise),
    SCMP_SYS(kcmp), SCMP_SYS(pidfd_getfd), SCMP_SYS(pidfd_send_signal), SCMP_SYS(rt_sigqueueinfo),
    SCMP_SYS(tkill), SCMP_SYS(perf_event_open), SCMP_SYS(userfaultfd),
    // the view of the host
    SCMP_SYS(mount), SCMP_SYS(umount2), SCMP_SYS(pivot_root), SCMP_SYS(chroot), SCMP_SYS(unshare),
    SCMP_SYS(setns), SCMP_SYS(open_tree), kMoveMount, SCMP_SYS(fsopen), SCMP_SYS(fsconfig),
    SCMP_SYS(fsmount), SCMP_SYS(fspick), kMountSetattr, kOpenTreeAttr, kStatmount, kListmount,
    SCMP_SYS(name_to_handle_at), SCMP_SYS(open_by_handle_at), SCMP_SYS(mknod), SCMP_SYS(mknodat),
    SCMP_SYS(quotactl), SCMP_SYS(quotactl_fd), SCMP_SYS(fanotify_init), SCMP_SYS(lookup_dcookie),
    // who it is
    SCMP_SYS(setuid), SCMP_SYS(setgid), SCMP_SYS(setreuid), SCMP_SYS(setregid), SCMP_SYS(setresuid),
    SCMP_SYS(setresgid), SCMP_SYS(setfsuid), SCMP_SYS(setfsgid), SCMP_SYS(setgroups),
    SCMP_SYS(capset), SCMP_SYS(keyctl), SCMP_SYS(add_key), SCMP_SYS(request_key),
    // the kernel and the host
    SCMP_SYS(init_module), SCMP_SYS(finit_module), SCMP_SYS(delete_module), SCMP_SYS(kexec_load),
    SCMP_SYS(kexec_file_load), SCMP_SYS(bpf), SCMP_SYS(syslog), SCMP_SYS(acct), SCMP_SYS(swapon),
    SCMP_SYS(swapoff), SCMP_SYS(reboot), SCMP_SYS(iopl), SCMP_SYS(ioperm), SCMP_SYS(settimeofday),
    SCMP_SYS(clock_settime), SCMP_SYS(clock_adjtime), SCMP_SYS(adjtimex), SCMP_SYS(sethostname),
    SCMP_SYS(setdomainname), SCMP_SYS(vhangup), SCMP_SYS(nfsservctl), SCMP_SYS(uselib),
    SCMP_SYS(modify_ldt),
    // would do what is denied here on the worker's behalf
    SCMP_SYS(io_uring_setup), SCMP_SYS(io_uring_enter), SCMP_SYS(io_uring_register)};

// What a worker with a software GPU needs: threads, memory, files, and the connections that it is
// given. It makes none but the one to a client that offers shared memory, in its first frame: later
// its client's TCP socket could become one to any service. LLVM works inside the process and starts
// nothing. What has arguments that matter is in add_common_allowed().
constexpr int kAllowed[] = {
    // memory
    SCMP_SYS(mmap), SCMP_SYS(munmap), SCMP_SYS(mprotect), SCMP_SYS(mremap), SCMP_SYS(madvise),
    SCMP_SYS(brk), SCMP_SYS(mincore), SCMP_SYS(msync), SCMP_SYS(mlock), SCMP_SYS(mlock2),
    SCMP_SYS(munlock), SCMP_SYS(memfd_create), SCMP_SYS(membarrier), SCMP_SYS(mbind),
    SCMP_SYS(get_mempolicy), SCMP_SYS(set_mempolicy), SCMP_SYS(pkey_alloc), SCMP_SYS(pkey_free),
    SCMP_SYS(pkey_mprotect),
    // files
    SCMP_SYS(read), SCMP_SYS(write), SCMP_SYS(readv), SCMP_SYS(writev), SCMP_SYS(pread64),
    SCMP_SYS(pwrite64), SCMP_SYS(preadv), SCMP_SYS(pwritev), SCMP_SYS(lseek), SCMP_SYS(open),
    SCMP_SYS(openat), SCMP_SYS(close), SCMP_SYS(close_range), SCMP_SYS(dup), SCMP_SYS(dup2),
    SCMP_SYS(dup3), SCMP_SYS(fcntl), SCMP_SYS(flock), SCMP_SYS(stat), SCMP_SYS(lstat),
    SCMP_SYS(fstat), SCMP_SYS(newfstatat), SCMP_SYS(statx), SCMP_SYS(statfs), SCMP_SYS(fstatfs),
    SCMP_SYS(access), SCMP_SYS(faccessat), SCMP_SYS(faccessat2), SCMP_SYS(readlink),
    SCMP_SYS(readlinkat), SCMP_SYS(getdents64), SCMP_SYS(getcwd), SCMP_SYS(mkdir),
    SCMP_SYS(mkdirat), SCMP_SYS(rename), SCMP_SYS(renameat), SCMP_SYS(renameat2), SCMP_SYS(unlink),
    SCMP_SYS(unlinkat), SCMP_SYS(rmdir), SCMP_SYS(ftruncate), SCMP_SYS(fallocate),
    SCMP_SYS(fadvise64), SCMP_SYS(fsync), SCMP_SYS(fdatasync), SCMP_SYS(fchmod),
    SCMP_SYS(utimensat), SCMP_SYS(umask), SCMP_SYS(copy_file_range),
    // waiting, and connections
    SCMP_SYS(poll), SCMP_SYS(ppoll), SCMP_SYS(select), SCMP_SYS(pselect6), SCMP_SYS(epoll_create),
    SCMP_SYS(epoll_create1), SCMP_SYS(epoll_ctl), SCMP_SYS(epoll_wait), SCMP_SYS(epoll_pwait),
    SCMP_SYS(eventfd), SCMP_SYS(eventfd2), SCMP_SYS(pipe), SCMP_SYS(pipe2),
    SCMP_SYS(timerfd_create), SCMP_SYS(timerfd_settime), SCMP_SYS(timerfd_gettime),
    // (listen: on the socket that rgpud comes to, which is bound already, connection/control.h)
    SCMP_SYS(listen), SCMP_SYS(accept), SCMP_SYS(accept4), SCMP_SYS(getsockname),
    SCMP_SYS(getpeername), SCMP_SYS(getsockopt), SCMP_SYS(setsockopt), SCMP_SYS(sendto),
    SCMP_SYS(recvfrom), SCMP_SYS(sendmsg), SCMP_SYS(recvmsg), SCMP_SYS(sendmmsg),
    SCMP_SYS(recvmmsg), SCMP_SYS(shutdown),
    // threads, time, signals
    SCMP_SYS(futex), SCMP_SYS(set_robust_list), SCMP_SYS(get_robust_list), SCMP_SYS(rseq),
    SCMP_SYS(set_tid_address), SCMP_SYS(exit), SCMP_SYS(exit_group), SCMP_SYS(sched_yield),
    SCMP_SYS(sched_getaffinity), SCMP_SYS(sched_setaffinity), SCMP_SYS(sched_getparam),
    SCMP_SYS(sched_getscheduler), SCMP_SYS(sched_get_priority_max),
    SCMP_SYS(sched_get_priority_min), SCMP_SYS(getcpu), SCMP_SYS(arch_prctl), SCMP_SYS(prctl),
    SCMP_SYS(seccomp), SCMP_SYS(clock_gettime), SCMP_SYS(clock_getres), SCMP_SYS(clock_nanosleep),
    SCMP_SYS(nanosleep), SCMP_SYS(gettimeofday), SCMP_SYS(time), SCMP_SYS(times),
    SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn),
    SCMP_SYS(rt_sigpending), SCMP_SYS(rt_sigtimedwait), SCMP_SYS(rt_sigsuspend),
    SCMP_SYS(sigaltstack), SCMP_SYS(restart_syscall), SCMP_SYS(pause),
    // who and where it is
    SCMP_SYS(getpid), SCMP_SYS(gettid), SCMP_SYS(getppid), SCMP_SYS(getpgrp), SCMP_SYS(getuid),
    SCMP_SYS(geteuid), SCMP_SYS(getgid), SCMP_SYS(getegid), SCMP_SYS(getresuid),
    SCMP_SYS(getresgid), SCMP_SYS(getgroups), SCMP_SYS(capget), SCMP_SYS(uname), SCMP_SYS(sysinfo),
    SCMP_SYS(getrandom), SCMP_SYS(getrlimit), SCMP_SYS(setrlimit), SCMP_SYS(getrusage)};

// UCX talks to RDMA devices by ioctl, and makes its sockets before the client's first frame is
// dealt with (confine.h). NVIDIA's driver talks to its devices in the same way.
constexpr int kAllowedToo[] = {SCMP_SYS(ioctl),   SCMP_SYS(socket), SCMP_SYS(socketpair),
                               SCMP_SYS(connect), SCMP_SYS(bind),   SCMP_SYS(shmget),
                               SCMP_SYS(shmat),   SCMP_SYS(shmdt),  SCMP_SYS(shmctl)};

// NCCL listens for other ranks.
constexpr int kAllowedForNccl[] = {SCMP_SYS(bind)};

// Newer than libseccomp 2.5.4 and Debian 12's headers.
constexpr int kMapShadowStack = 453, kFutexWake = 454, kFutexWait = 455, kFutexRequeue = 456,
              kMseal = 462, kFchmodat2 = 452, kEpollPwait2 = 441;
// Here C libraries take an older call, which they do at ENOSYS alone. Of these the kernel's log has
// nothing.
constexpr int kUnknown[] = {SCMP_SYS(clone3), SCMP_SYS(openat2), kEpollPwait2,
                            kFchmodat2,       kMapShadowStack,   kFutexWake,
                            kFutexWait,       kFutexRequeue,     kMseal};

constexpr uint32_t kDeny = SCMP_ACT_ERRNO(EPERM);
constexpr unsigned long kNamespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                      CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

int add_socket_rules(scmp_filter_ctx filter)
{
    for (int call : {SCMP_SYS(socket), SCMP_SYS(socketpair)})
        if (int r = seccomp_rule_add(filter, kDeny, call, 1, SCMP_A0(SCMP_CMP_NE, AF_UNIX)))
            return r;
    return 0;
}

// NCCL finds the host's interfaces, and meets other ranks over TCP, at any time.
constexpr unsigned kNcclFamilies[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK};

int add_other_families(scmp_filter_ctx filter)
{
    for (int call : {SCMP_SYS(socket), SCMP_SYS(socketpair)}) {
        for (unsigned family = 0; family < AF_MAX; family++)
            if (std::find(std::begin(kNcclFamilies), std::end(kNcclFamilies), family) ==
                std::end(kNcclFamilies))
                if (int r = seccomp_rule_add(filter, kDeny, call, 1, SCMP_A0(SCMP_CMP_EQ, family)))
                    return r;
        if (int r = seccomp_rule_add(filter, kDeny, call, 1, SCMP_A0(SCMP_CMP_GE, AF_MAX)))
            return r;
    }
    return 0;
}

int add_rules(scmp_filter_ctx filter)
{
    for (int call : kDenied)
        if (int r = seccomp_rule_add(filter, kDeny, call, 0)) return r;
    const struct {
        int call;
        scmp_arg_cmp argument;
    } rules[] = {
        // Threads, no processes.
        {SCMP_SYS(clone), SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0)},
        {SCMP_SYS(kill), SCMP_A0(SCMP_CMP_NE, kOwnPid)},
        {SCMP_SYS(tgkill), SCMP_A0(SCMP_CMP_NE, kOwnPid)},
        {SCMP_SYS(rt_tgsigqueueinfo), SCMP_A0(SCMP_CMP_NE, kOwnPid)},
        {SCMP_SYS(personality), SCMP_A0(SCMP_CMP_NE, 0xffffffff)},
    };
    for (const auto &rule : rules)
        if (int r = seccomp_rule_add(filter, kDeny, rule.call, 1, rule.argument)) return r;
    for (unsigned long bit = 1; bit <= kNamespaces; bit <<= 1)
        if (bit & kNamespaces)
            if (int r = seccomp_rule_add(filter, kDeny, SCMP_SYS(clone), 1,
                                         SCMP_A0(SCMP_CMP_MASKED_EQ, bit, bit)))
                return r;
    return 0;
}

// clone3's flags lie in memory, which a filter cannot read: glibc takes clone instead, for each
// thread again. Nobody wants that in the log.
int add_quiet_rules(scmp_filter_ctx filter)
{
    for (int call : kUnknown)
        if (int r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), call, 0)) return r;
    return 0;
}

int allow(scmp_filter_ctx filter, std::span<const int> calls)
{
    for (int call : calls)
        if (int r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 0)) return r;
    return 0;
}

int add_common_allowed(scmp_filter_ctx filter)
{
    // What the other filter has an answer to must not be denied here, too: the later one's would
    // count.
    if (int r = allow(filter, kAllowed)) return r;
    if (int r = allow(filter, kUnknown)) return r;
    const struct {
        int call;
        scmp_arg_cmp argument;
    } rules[] = {
        {SCMP_SYS(clone), SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD | kNamespaces, CLONE_THREAD)},
        {SCMP_SYS(kill), SCMP_A0(SCMP_CMP_EQ, kOwnPid)},
        {SCMP_SYS(tgkill), SCMP_A0(SCMP_CMP_EQ, kOwnPid)},
        {SCMP_SYS(rt_tgsigqueueinfo), SCMP_A0(SCMP_CMP_EQ, kOwnPid)},
        {SCMP_SYS(personality), SCMP_A0(SCMP_CMP_EQ, 0xffffffff)},
        {SCMP_SYS(prlimit64), SCMP_A0(SCMP_CMP_EQ, 0)},
        {SCMP_SYS(prlimit64), SCMP_A0(SCMP_CMP_EQ, kOwnPid)},
    };
    for (const auto &rule : rules)
        if (int r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, rule.call, 1, rule.argument)) return r;
    return 0;
}

int add_software(scmp_filter_ctx filter)
{
    if (int r = add_common_allowed(filter)) return r;
    for (int call : {SCMP_SYS(socket), SCMP_SYS(socketpair)})
        if (int r =
                seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 1, SCMP_A0(SCMP_CMP_EQ, AF_UNIX)))
            return r;
    for (unsigned request : {TCGETS, FIONREAD, FIONBIO})
        if (int r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1,
                                     SCMP_A1(SCMP_CMP_EQ, request)))
            return r;
    return 0;
}

int add_software_and_connect(scmp_filter_ctx filter)
{
    const int r = add_software(filter);
    return r ? r : seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(connect), 0);
}

int add_software_and_nccl(scmp_filter_ctx filter)
{
    if (int r = add_software_and_connect(filter)) return r;
    for (unsigned family : kNcclFamilies)
        if (int r = family == AF_UNIX ? 0
                                      : seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket),
                                                         1, SCMP_A0(SCMP_CMP_EQ, family)))
            return r;
    return allow(filter, kAllowedForNccl);
}

int add_all_but_nccl(scmp_filter_ctx filter)
{
    const int r = add_rules(filter);
    return r ? r : add_other_families(filter);
}

int add_connect_rule(scmp_filter_ctx filter)
{
    return seccomp_rule_add(filter, kDeny, SCMP_SYS(connect), 0);
}

int add_software_and_more(scmp_filter_ctx filter)
{
    const int r = add_common_allowed(filter);
    return r ? r : allow(filter, kAllowedToo);
}

int add_all(scmp_filter_ctx filter)
{
    const int r = add_rules(filter);
    return r ? r : add_socket_rules(filter);
}

struct Release {
    void operator()(void *filter) const { seccomp_release(filter); }
};

// `otherwise`: what becomes of the calls that no rule is about.
bool print(const char *name, int (*add)(scmp_filter_ctx), uint32_t otherwise = SCMP_ACT_ALLOW)
{
    std::unique_ptr<void, Release> filter(seccomp_init(otherwise));
    // Another architecture's calls (i386, x32) have other numbers: none of them.
    int r = filter ? seccomp_attr_set(filter.get(), SCMP_FLTATR_ACT_BADARCH, kDeny) : -ENOMEM;
    if (!r)
        r = seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_OPTIMIZE,
                             2);  // binary tree: a call costs tens of ns
    if (!r) r = add(filter.get());
    const int file = memfd_create(name, MFD_CLOEXEC);
    if (!r) r = seccomp_export_bpf(filter.get(), file);
    std::vector<sock_filter> steps(static_cast<size_t>(lseek(file, 0, SEEK_END)) /
                                   sizeof(sock_filter));
    const auto bytes = static_cast<ssize_t>(steps.size() * sizeof steps[0]);
    if (r || steps.empty() || pread(file, steps.data(), static_cast<size_t>(bytes), 0) != bytes) {
        fprintf(stderr, "make-filters: %s: %s\n", name, strerror(r ? -r : errno));
        return false;
    }
    printf("inline constexpr sock_filter %s[] = {\n", name);
    for (const sock_filter &f : steps) printf("    {%#x, %u, %u, %#x},\n", f.code, f.jt, f.jf, f.k);
    puts("};");
    close(file);
    return true;
}

}  // namespace

int main()
{
    const bool made = print("kQuiet", add_quiet_rules) && print("kAllButSockets", add_rules) &&
                      print("kSockets", add_socket_rules) && print("kAll", add_all) &&
                      print("kSoftware", add_software, kDeny) &&
                      print("kSoftwareButConnect", add_software_and_connect, kDeny) &&
                      print("kConnect", add_connect_rule) &&
                      print("kAllButNccl", add_all_but_nccl) &&
                      print("kOtherFamilies", add_other_families) &&
                      print("kSoftwareAndNccl", add_software_and_nccl, kDeny) &&
                      print("kSoftwareButSockets", add_software_and_more, kDeny) &&
                      print("kNotListed", add_software_and_more, SCMP_ACT_LOG);
    return made ? 0 : 1;
}
