// SPDX-License-Identifier: Apache-2.0
// What a child does between fork and exec.
#include "util/child.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <vector>

using namespace rgpu;

namespace {

// The child's exit status, or the signal that ended it with 128 added.
int in_child(const std::function<int()> &body)
{
    const pid_t pid = fork();
    if (pid == 0) _exit(body());
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

Test(child, descriptors_that_stand_in_each_others_way_get_their_places)
{
    cr_expect_eq(in_child([] {
                     int one[2], two[2];
                     if (pipe(one) != 0 || pipe(two) != 0) return 1;
                     // The writing ends at 0 and 1, crosswise; all else is closed.
                     dup2(two[1], 0);
                     dup2(one[1], 1);
                     const int given[] = {1, 0, one[0], two[0]};
                     if (!place_descriptors(given)) return 2;
                     char a = 0, b = 0;
                     if (write(0, "1", 1) != 1 || write(1, "2", 1) != 1 || read(2, &a, 1) != 1 ||
                         read(3, &b, 1) != 1 || a != '1' || b != '2')
                         return 3;
                     return fcntl(4, F_GETFD) < 0 ? 0 : 4;
                 }),
                 0);
}

Test(child, more_descriptors_than_fit_are_refused)
{
    const std::vector<int> many(kMostPlaced + 1, 0);
    cr_expect_eq(in_child([&] { return place_descriptors(many) ? 1 : fcntl(0, F_GETFD); }), 0,
                 "and none is closed");
}

Test(child, one_that_is_not_open_is_refused)
{
    const int given[] = {0, -1};
    cr_expect_eq(in_child([&] { return place_descriptors(given) ? 1 : 0; }), 0);
}

Test(child, signals_are_as_at_birth)
{
    cr_expect_eq(in_child([] {
                     signal(SIGUSR1, SIG_IGN);
                     sigset_t all;
                     sigfillset(&all);
                     sigprocmask(SIG_SETMASK, &all, nullptr);
                     default_signals();
                     raise(SIGUSR1);
                     return 0;
                 }),
                 128 + SIGUSR1);
}

Test(child, is_bound_to_processors_that_there_are_and_to_no_others)
{
    Processors processors{};
    set_processors(processors, {-1, 0, 1024, 1 << 30});
    cr_expect_eq(processors[0], 1);
    for (int i = 1; i < 16; ++i) cr_expect_eq(processors[i], 0);
    cr_expect_eq(in_child([&] {
                     bind_to(processors);
                     cpu_set_t set;
                     sched_getaffinity(0, sizeof set, &set);
                     return CPU_COUNT(&set) == 1 && CPU_ISSET(0, &set) ? 0 : 1;
                 }),
                 0);
    cr_expect_eq(in_child([] {
                     Processors none{};
                     cpu_set_t before, after;
                     sched_getaffinity(0, sizeof before, &before);
                     bind_to(none);
                     sched_getaffinity(0, sizeof after, &after);
                     return CPU_EQUAL(&before, &after) ? 0 : 1;
                 }),
                 0);
}

Test(child, limits_hold_and_are_never_raised)
{
    cr_expect_eq(in_child([] {
                     rlimit now{};
                     if (!set_limits({64 << 20, 4}) || !set_limits({0, 0}) ||
                         !set_limits({uint64_t{1} << 50, 9}))
                         return 1;
                     getrlimit(RLIMIT_NPROC, &now);
                     if (now.rlim_max != 4 || now.rlim_cur != 4) return 2;
                     getrlimit(RLIMIT_DATA, &now);
                     if (now.rlim_max != 64 << 20) return 3;
                     for (size_t eaten = 0; eaten < size_t{256} << 20; eaten += 65536)
                         if (!malloc(65536)) return 0;
                     return 4;
                 }),
                 0);
}
