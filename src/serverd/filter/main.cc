// Makes the filters of system calls that workers install (serverd/worker/confine.h): prints them as arrays of sock_filter (seccomp(2)). Run when rgpu is
// built: a worker that makes them itself with libseccomp, which is started for each program, takes a tenth longer to start.
#include <linux/filter.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "serverd/filter/own_pid.h"

namespace {

using rgpu::serverd::kOwnPid;

// Newer than libseccomp 2.5.4 and Debian 12's headers: arch/x86/entry/syscalls/syscall_64.tbl.
constexpr int kMountSetattr = 442, kMoveMount = 429, kOpenTreeAttr = 467, kStatmount = 457, kListmount = 458;

constexpr int kDenied[] = {
    // other programs, other processes
    SCMP_SYS(execve), SCMP_SYS(execveat), SCMP_SYS(fork), SCMP_SYS(vfork), SCMP_SYS(ptrace), SCMP_SYS(process_vm_readv),
    SCMP_SYS(process_vm_writev), SCMP_SYS(process_madvise), SCMP_SYS(kcmp), SCMP_SYS(pidfd_getfd), SCMP_SYS(pidfd_send_signal),
    SCMP_SYS(rt_sigqueueinfo), SCMP_SYS(tkill), SCMP_SYS(perf_event_open), SCMP_SYS(userfaultfd),
    // the view of the host
    SCMP_SYS(mount), SCMP_SYS(umount2), SCMP_SYS(pivot_root), SCMP_SYS(chroot), SCMP_SYS(unshare), SCMP_SYS(setns),
    SCMP_SYS(open_tree), kMoveMount, SCMP_SYS(fsopen), SCMP_SYS(fsconfig), SCMP_SYS(fsmount), SCMP_SYS(fspick),
    kMountSetattr, kOpenTreeAttr, kStatmount, kListmount, SCMP_SYS(name_to_handle_at), SCMP_SYS(open_by_handle_at),
    SCMP_SYS(mknod), SCMP_SYS(mknodat), SCMP_SYS(quotactl), SCMP_SYS(quotactl_fd), SCMP_SYS(fanotify_init), SCMP_SYS(lookup_dcookie),
    // who it is
    SCMP_SYS(setuid), SCMP_SYS(setgid), SCMP_SYS(setreuid), SCMP_SYS(setregid), SCMP_SYS(setresuid), SCMP_SYS(setresgid),
    SCMP_SYS(setfsuid), SCMP_SYS(setfsgid), SCMP_SYS(setgroups), SCMP_SYS(capset), SCMP_SYS(keyctl), SCMP_SYS(add_key),
    SCMP_SYS(request_key),
    // the kernel and the host
    SCMP_SYS(init_module), SCMP_SYS(finit_module), SCMP_SYS(delete_module), SCMP_SYS(kexec_load), SCMP_SYS(kexec_file_load),
    SCMP_SYS(bpf), SCMP_SYS(syslog), SCMP_SYS(acct), SCMP_SYS(swapon), SCMP_SYS(swapoff), SCMP_SYS(reboot), SCMP_SYS(iopl),
    SCMP_SYS(ioperm), SCMP_SYS(settimeofday), SCMP_SYS(clock_settime), SCMP_SYS(clock_adjtime), SCMP_SYS(adjtimex),
    SCMP_SYS(sethostname), SCMP_SYS(setdomainname), SCMP_SYS(vhangup), SCMP_SYS(nfsservctl), SCMP_SYS(uselib), SCMP_SYS(modify_ldt),
    // would do what is denied here on the worker's behalf
    SCMP_SYS(io_uring_setup), SCMP_SYS(io_uring_enter), SCMP_SYS(io_uring_register),
};

constexpr uint32_t kDeny = SCMP_ACT_ERRNO(EPERM);
constexpr unsigned long kNamespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |
                                      CLONE_NEWPID | CLONE_NEWNET;

int add_socket_rules(scmp_filter_ctx filter)
{
    for (int call : {SCMP_SYS(socket), SCMP_SYS(socketpair)})
        if (int r = seccomp_rule_add(filter, kDeny, call, 1, SCMP_A0(SCMP_CMP_NE, AF_UNIX))) return r;
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
            if (int r = seccomp_rule_add(filter, kDeny, SCMP_SYS(clone), 1, SCMP_A0(SCMP_CMP_MASKED_EQ, bit, bit))) return r;
    return 0;
}

// clone3's flags lie in memory, which a filter cannot read: glibc takes clone instead, for each thread again. Nobody wants that in the log.
int add_quiet_rules(scmp_filter_ctx filter) { return seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0); }

int add_all(scmp_filter_ctx filter)
{
    const int r = add_rules(filter);
    return r ? r : add_socket_rules(filter);
}

struct Release {
    void operator()(void *filter) const { seccomp_release(filter); }
};

bool print(const char *name, int (*add)(scmp_filter_ctx))
{
    std::unique_ptr<void, Release> filter(seccomp_init(SCMP_ACT_ALLOW));
    // Another architecture's calls (i386, x32) have other numbers: none of them.
    int r = filter ? seccomp_attr_set(filter.get(), SCMP_FLTATR_ACT_BADARCH, kDeny) : -ENOMEM;
    if (!r) r = seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2);  // binary tree: a call costs tens of ns
    if (!r) r = add(filter.get());
    const int file = memfd_create(name, MFD_CLOEXEC);
    if (!r) r = seccomp_export_bpf(filter.get(), file);
    std::vector<sock_filter> steps(static_cast<size_t>(lseek(file, 0, SEEK_END)) / sizeof(sock_filter));
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
    const bool made = print("kQuiet", add_quiet_rules) && print("kAllButSockets", add_rules) && print("kSockets", add_socket_rules) && print("kAll", add_all);
    return made ? 0 : 1;
}
