// Collects requests before a thread is spent on them: whoever sends half a request, or nothing, holds a few
// bytes for a few seconds and keeps nobody else waiting.
//
// One thread reads from all connections without ever waiting for one. A request that is whole (or so wrong
// that no more of it is needed) goes to a fixed number of threads, which never read from the network.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "util/clock.h"
#include "util/fd.h"
#include "util/result.h"

namespace rgpu::serverd {

class RequestGate {
public:
    // Answers the request that stands in front of `received`, and takes it off; false: the connection is to be
    // closed. Called in several threads at once.
    using Answer = std::function<bool(int socket, std::string &received, bool last)>;

    explicit RequestGate(Answer answer) : answer_(std::move(answer)) {}
    ~RequestGate() { stop(); }

    Result<void> start();
    // Answers what is whole already, closes the rest.
    void stop();

    // Any thread. Above the limit of connections it is closed at once.
    void add(Fd socket);

    // How many bytes of `received` the first request has: 0 when more must come. What can never become a request
    // that is served counts as whole.
    static size_t whole(const std::string &received);

private:
    struct Connection {
        Fd socket;
        std::string received;
        Time deadline;
        int answered = 0;
    };

    void watch();
    Time sweep(Time now);
    void read_from(int fd);
    void work();
    void wake();
    void take_back();

    Answer answer_;
    Fd epoll_, waker_;
    std::map<int, Connection> waiting_;  // of watch() alone
    std::thread watcher_;
    std::vector<std::thread> workers_;

    std::mutex mutex_;
    std::condition_variable some_;
    std::deque<Connection> ready_;     // to be answered
    std::vector<Connection> returned_;  // new, or answered and kept alive
    size_t open_ = 0;
    bool ending_ = false;
};

}  // namespace rgpu::serverd
