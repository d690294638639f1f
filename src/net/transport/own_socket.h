// SPDX-License-Identifier: Apache-2.0
// A socket in a process that is not ours: the program may have closed it, and got its number again
// for something of its own.
#pragma once

#include <sys/stat.h>

#include <cstdint>

#include "util/fd.h"

namespace rgpu::net {

class OwnSocket {
public:
    OwnSocket() = default;
    explicit OwnSocket(Fd fd) : fd_(std::move(fd)), inode_(inode_of(fd_.get())) {}
    OwnSocket(OwnSocket &&) = default;
    OwnSocket &operator=(OwnSocket &&) = delete;
    ~OwnSocket() { let_go(); }

    int get() const { return fd_.get(); }
    bool ours() const { return fd_ && inode_ && inode_of(fd_.get()) == inode_; }
    // Gives it away, if it is ours still; else nothing.
    Fd release()
    {
        if (ours()) return std::move(fd_);
        (void)fd_.release();
        return {};
    }
    // Closes it, if it is ours still.
    void let_go()
    {
        if (ours())
            fd_.reset();
        else
            (void)fd_.release();
    }

private:
    static uint64_t inode_of(int fd)
    {
        struct stat s;
        return fstat(fd, &s) == 0 && S_ISSOCK(s.st_mode) ? s.st_ino : 0;
    }

    Fd fd_;
    uint64_t inode_ = 0;
};

}  // namespace rgpu::net
