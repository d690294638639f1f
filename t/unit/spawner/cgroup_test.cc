// SPDX-License-Identifier: Apache-2.0
// What root does with a cgroup that rgpud has made: workers go into it, and all that is there ends.
#include "spawner/cgroup.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <set>
#include <string>

using namespace rgpu;
using namespace rgpu::spawner;

namespace {

// Directories like those that root gives to rgpud, and a group in each.
struct Host {
    Settings settings{};
    const std::string key = "job";

    Host(std::initializer_list<const char *> hierarchies, bool v2)
    {
        settings.v2 = v2;
        size_t i = 0;
        for (const char *hierarchy : hierarchies) {
            const std::string base = std::string("/sys/fs/cgroup/") + hierarchy +
                                     "/rgpu-spawner-test-" + std::to_string(getpid());
            if (mkdir(base.c_str(), 0755) != 0 || mkdir((base + "/" + key).c_str(), 0755) != 0)
                cr_skip_test("%s cannot be written: needs root and that hierarchy", base.c_str());
            strcpy(settings.cgroups[i++], base.c_str());
        }
    }
    ~Host()
    {
        for (const char *base : settings.cgroups) {
            if (!*base) continue;
            for (int i = 0; i < 500 && rmdir((std::string(base) + "/" + key).c_str()) != 0; ++i)
                usleep(10'000);
            rmdir(base);
        }
    }
    std::set<pid_t> pids(size_t hierarchy = 0) const
    {
        std::set<pid_t> all;
        std::ifstream file(std::string(settings.cgroups[hierarchy]) + "/" + key + "/cgroup.procs");
        for (pid_t pid; file >> pid;) all.insert(pid);
        return all;
    }
};

pid_t born_in(const Cgroup &cgroup)
{
    const pid_t pid = cgroup.fork();
    if (pid == 0)
        for (;;) pause();
    return pid;
}

int ended_by(pid_t pid)
{
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

void try_all(const Host &host)
{
    const Cgroup cgroup(host.settings, host.key);
    cr_expect(!cgroup.kill(), "nothing is there");
    const pid_t first = born_in(cgroup), second = born_in(cgroup);
    const std::set<pid_t> both = {first, second};
    for (int i = 0; i < 500 && host.pids() != both; ++i) usleep(10'000);
    cr_expect(host.pids() == both);
    for (size_t i = 0; i < 3 && *host.settings.cgroups[i]; ++i) cr_expect(host.pids(i) == both);
    const pid_t other = fork();
    if (other == 0)
        for (;;) pause();
    cr_expect(cgroup.kill());
    cr_expect_eq(ended_by(first), SIGKILL);
    cr_expect_eq(ended_by(second), SIGKILL);
    cr_expect_eq(waitpid(other, nullptr, WNOHANG), 0, "what is not in it lives");
    kill(other, SIGKILL);
    waitpid(other, nullptr, 0);
    cr_expect(!cgroup.kill(), "nothing is left");
}

}  // namespace

Test(cgroup, of_v1_is_entered_in_each_hierarchy)
{
    const Host host({"pids", "cpu"}, false);
    try_all(host);
}

// The unified hierarchy beside v1's has no controllers for us, and moves processes all the same.
Test(cgroup, of_v2_is_entered_at_birth)
{
    if (access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0) {
        const Host host({"."}, true);
        return try_all(host);
    }
    const Host host({"unified"}, true);
    try_all(host);
}

Test(cgroup, that_nobody_made_is_entered_by_nobody)
{
    const Host host({"pids"}, false);
    for (const char *key : {"another", "job/../../..", ""}) {
        if (!*key) continue;
        const Cgroup cgroup(host.settings, key);
        if (!strchr(key, '/')) cr_expect(!cgroup.kill());
    }
    Settings none{};
    const Cgroup cgroup(none, host.key);
    cr_expect(!cgroup.kill());
    const pid_t pid = born_in(cgroup);
    cr_expect(host.pids().empty());
    kill(pid, SIGKILL);
    cr_expect_eq(ended_by(pid), SIGKILL);
}
