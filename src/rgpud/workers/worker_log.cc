// SPDX-License-Identifier: Apache-2.0
#include "rgpud/workers/worker_log.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "util/defaults.h"
#include "util/log.h"
#include "util/units.h"

namespace rgpu::serverd {
namespace {

constexpr size_t kMostLine = 1024;
constexpr size_t kMostEvents = 64;
constexpr Milliseconds kPause{1000};
constexpr Milliseconds kTellAgain{60'000};

}  // namespace

WorkerLog::WorkerLog() : epoll_(epoll_create1(EPOLL_CLOEXEC)), stopping_(eventfd(0, EFD_CLOEXEC))
{
    epoll_event event{.events = EPOLLIN, .data = {.fd = stopping_.get()}};
    epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, stopping_.get(), &event);
    thread_ = std::thread([this] { run(); });
}

WorkerLog::~WorkerLog()
{
    const uint64_t one = 1;
    (void)!write(stopping_.get(), &one, sizeof one);
    thread_.join();
}

Result<Fd> WorkerLog::open(const std::string &lease, int most)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return error(ErrorKind::exhausted, "no pipe: %s", strerror(errno));
    Fd ours(ends[0]), theirs(ends[1]);
    std::lock_guard lock(mutex_);
    epoll_event event{.events = EPOLLIN, .data = {.fd = ours.get()}};
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, ours.get(), &event) != 0)
        return error(ErrorKind::exhausted, "epoll: %s", strerror(errno));
    Lease &known =
        leases_.try_emplace(lease, Lease{{defaults::kLogLines, defaults::kLogLinesAtOnce}})
            .first->second;
    const int fd = ours.get();
    pipes_[fd] = {std::move(ours), lease, {}, ++last_};
    for (++known.pipes; known.pipes > std::max(most, 1);) close_oldest(lease);
    return theirs;
}

// One of several.
void WorkerLog::close_oldest(const std::string &lease)
{
    auto oldest = pipes_.end();
    for (auto pipe = pipes_.begin(); pipe != pipes_.end(); ++pipe)
        if (pipe->second.lease == lease &&
            (oldest == pipes_.end() || pipe->second.number < oldest->second.number))
            oldest = pipe;
    close(oldest->first);
}

void WorkerLog::run()
{
    std::array<epoll_event, kMostEvents> events;
    for (;;) {
        int wait = -1;
        {
            std::lock_guard lock(mutex_);
            wait = paused_.empty() ? -1 : static_cast<int>(kPause.count() / 4);
        }
        const int count =
            epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), wait);
        std::lock_guard lock(mutex_);
        for (int i = 0; i < count; ++i) {
            const int fd = events[static_cast<size_t>(i)].data.fd;
            if (fd == stopping_.get()) return;
            if (!pipes_.count(fd)) continue;
            // What is left in a pipe that is not read now is lost with its worker.
            if (events[static_cast<size_t>(i)].events & EPOLLIN && !paused_.count(fd))
                read_some(fd);
            else
                close(fd);
        }
        go_on();
    }
}

// With the mutex held, as all that follow.
void WorkerLog::read_some(int fd)
{
    char block[4096];
    const ssize_t n = read(fd, block, sizeof block);
    if (n > 0)
        take(pipes_[fd], {block, static_cast<size_t>(n)});
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        close(fd);
}

void WorkerLog::take(Pipe &pipe, std::string_view bytes)
{
    for (char c : bytes) {
        if (c == '\n' || pipe.line.size() == kMostLine) say(pipe);
        if (c != '\n') pipe.line += c;
    }
}

void WorkerLog::say(Pipe &pipe)
{
    Lease &lease = leases_.at(pipe.lease);
    const Time time = now();
    if (lease.lines.due(time) == time) {
        lease.lines.take(time);
        log_info("lease %s: a worker says: %s", short_id(pipe.lease).c_str(), pipe.line.c_str());
    } else {
        pause(pipe.end.get());
        if (time >= lease.told + kTellAgain || lease.told == Time::min()) {
            log_warning("lease %s: its workers say more than %d lines a second: some are left out",
                        short_id(pipe.lease).c_str(), defaults::kLogLines);
            lease.told = time;
        }
    }
    pipe.line.clear();
}

void WorkerLog::pause(int fd)
{
    epoll_event event{.events = 0, .data = {.fd = fd}};  // its end is told all the same
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
    paused_[fd] = now() + kPause;
}

void WorkerLog::go_on()
{
    const Time time = now();
    std::erase_if(paused_, [&](const auto &paused) {
        if (time < paused.second) return false;
        epoll_event event{.events = EPOLLIN, .data = {.fd = paused.first}};
        epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, paused.first, &event);
        return true;
    });
}

void WorkerLog::close(int fd)
{
    const auto pipe = pipes_.find(fd);
    if (!pipe->second.line.empty()) say(pipe->second);
    --leases_.at(pipe->second.lease).pipes;
    paused_.erase(fd);
    // A child that is yet to exec may have it, too: then to close it here does not end its place in
    // the epoll.
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
    pipes_.erase(pipe);
    // A lease whose workers come and go keeps what it has used.
    std::erase_if(leases_, [](const auto &lease) {
        return lease.second.pipes == 0 && lease.second.lines.full(now());
    });
}

}  // namespace rgpu::serverd
