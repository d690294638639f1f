// SPDX-License-Identifier: Apache-2.0
// What workers write to stderr, in rgpud's log: so many lines a second for each lease, whatever
// they write.
//
// Each worker has a pipe. What comes too fast stays in it: then there is no room, and what the
// worker writes is lost; its writes never wait (O_NONBLOCK). Lines are cut at 1 KiB, and control
// characters come out as '?'.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "util/clock.h"
#include "util/fd.h"
#include "util/result.h"
#include "util/token_bucket.h"

namespace rgpu::serverd {

// Any thread. Reads in one of its own until it is destroyed: workers that live on write to nobody
// then.
class WorkerLog {
public:
    WorkerLog();
    ~WorkerLog();
    WorkerLog(const WorkerLog &) = delete;

    // The end that becomes the stderr of a worker of this lease. Of that lease so many are read,
    // the latest: whoever has the older ones has them from workers that have ended.
    Result<Fd> open(const std::string &lease, int most);

private:
    struct Lease {
        TokenBucket lines;
        int pipes = 0;
        Time told = Time::min();  // that some are left out
    };
    struct Pipe {
        Fd end;
        std::string lease, line;
        uint64_t number = 0;  // by age
    };
    void run();
    void read_some(int fd);
    void take(Pipe &pipe, std::string_view bytes);
    void say(Pipe &pipe);
    void close(int fd);
    void close_oldest(const std::string &lease);
    void pause(int fd);
    void go_on();

    Fd epoll_, stopping_;
    std::mutex mutex_;
    std::map<int, Pipe> pipes_;
    uint64_t last_ = 0;
    std::map<std::string, Lease> leases_;
    std::map<int, Time> paused_;  // pipes, and until when
    std::thread thread_;
};

}  // namespace rgpu::serverd
