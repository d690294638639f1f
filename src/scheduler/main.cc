// SPDX-License-Identifier: Apache-2.0
// rgpu-scheduler: says whose turn it is on each GPU of a host (doc/sharing.md). rgpud starts it,
// and it outlives rgpud as workers do.
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "scheduler/server.h"
#include "util/version.h"

namespace {

constexpr char kHelp[] =
    "usage: rgpu-scheduler UID | --help | --version\n"
    "\n"
    "Divides the time of a host's GPUs among the leases. rgpud, which runs as the user with that "
    "number,\n"
    "starts it with a listening socket as descriptor 3; it is not meant to be started by hand.\n"
    "\n"
    "  --help        print this and end\n"
    "  --version     print the version and end\n";

constexpr int kListening = 3;

// Each worker needs two descriptors here.
void raise_limits()
{
    rlimit files{};
    if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
}

// A page that a worker has taken out of its memory, and that the kernel has nothing to put in place
// of, reads as zeros from now on.
void on_bus_error(int, siginfo_t *info, void *)
{
    constexpr uintptr_t kPage = 4096;
    void *page =
        reinterpret_cast<void *>(reinterpret_cast<uintptr_t>(info->si_addr) & ~(kPage - 1));
    if (info->si_code <= 0 || mmap(page, kPage, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
        abort();
}

// Where the kernel can do it (Linux 6.12), a short slice: who waits for a turn on a busy host waits
// for this process, which needs microseconds.
void ask_for_short_slices()
{
    struct {  // sched_attr of sched_setattr(2), which not every C library has
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    } attributes{};
    attributes.size = sizeof attributes;
    attributes.runtime = 100'000;  // nanoseconds, the least
    (void)syscall(SYS_sched_setattr, 0, &attributes, 0);
}

int serve(uid_t owner)
{
    // No process of the same user looks into this one.
    prctl(PR_SET_DUMPABLE, 0);
    prctl(PR_SET_TIMERSLACK, 1000);  // nanoseconds
    for (int ignored : {SIGPIPE, SIGHUP, SIGINT, SIGIO, SIGUSR1, SIGUSR2, SIGALRM})
        signal(ignored, SIG_IGN);
    struct sigaction bus {};
    bus.sa_sigaction = on_bus_error;
    bus.sa_flags = SA_SIGINFO;
    sigaction(SIGBUS, &bus, nullptr);
    raise_limits();
    ask_for_short_slices();
    auto server = rgpu::scheduler::Server::open(rgpu::Fd(kListening), owner);
    if (!server) {
        fprintf(stderr, "rgpu-scheduler: %s\n", server.error().text.c_str());
        return 1;
    }
    while (server->turn()) {}
    return 0;
}

}  // namespace

int main(int argc, char **argv)
{
    char *end = nullptr;
    if (argc == 2 && !strcmp(argv[1], "--help")) {
        fputs(kHelp, stdout);
        return 0;
    }
    if (argc == 2 && !strcmp(argv[1], "--version")) {
        puts(rgpu::version_line("rgpu-scheduler").c_str());
        return 0;
    }
    const unsigned long owner = argc == 2 ? strtoul(argv[1], &end, 10) : 0;
    if (!end || *end || end == argv[1]) {
        fputs(kHelp, stderr);
        return 2;
    }
    return serve(static_cast<uid_t>(owner));
}
