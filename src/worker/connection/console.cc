// SPDX-License-Identifier: Apache-2.0
// Standard output as a memfd; what was sent is punched out of it again.
#include "worker/connection/console.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <string>

namespace rgpu::worker {

bool Console::capture()
{
    fd_ = memfd_create("rgpu-printf", MFD_CLOEXEC);
    if (fd_ < 0) return false;
    fcntl(fd_, F_SETFL, O_APPEND);
    fflush(stdout);
    return dup2(fd_, STDOUT_FILENO) >= 0;
}

void Console::drain(Sender &to)
{
    if (fd_ < 0) return;
    std::lock_guard lock(mutex_);
    fflush(stdout);
    struct stat s;
    if (fstat(fd_, &s) != 0 || s.st_size <= done_) return;
    std::string text(static_cast<size_t>(s.st_size - done_), '\0');
    ssize_t n = pread(fd_, text.data(), text.size(), done_);
    if (n <= 0) return;
    text.resize(static_cast<size_t>(n));
    fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, done_, n);
    done_ += n;
    to.text(text);
}

}  // namespace rgpu::worker
