// SPDX-License-Identifier: Apache-2.0
#include "cli/slurm/behind.h"

#include <fcntl.h>
#include <unistd.h>

namespace rgpu::cli {

void behind(const std::function<void()> &work)
{
    pid_t child = fork();
    if (child < 0) work();
    if (child != 0) return;
    // slurmctld ends its script's process group, and reads what that prints until nobody has it
    // open.
    setsid();
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; null >= 0 && fd <= 2; ++fd) dup2(null, fd);
    work();
    _exit(0);
}

}  // namespace rgpu::cli
