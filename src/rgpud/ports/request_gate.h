// SPDX-License-Identifier: Apache-2.0
// The control port's connections: collects requests before a thread is spent on them, and gives
// answers to who takes them slowly. Whoever sends half a request, or nothing, or does not read,
// holds a few bytes for a few seconds and keeps nobody else waiting.
//
// One thread accepts, reads and writes without ever waiting for one connection. A request that is
// whole (or refused by its head) goes to a fixed number of threads, which never wait for the
// network. What a connection may hold is bounded, and so is each step's time; who must make room
// for others is newcomers.h's.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "rgpud/ports/newcomers.h"
#include "rgpud/ports/peer_stream.h"
#include "rgpud/ports/request_head.h"
#include "util/clock.h"
#include "util/fd.h"
#include "util/result.h"

namespace rgpu::serverd {

class RequestGate {
public:
    // One request, to be answered.
    struct Call {
        int socket;                // whose ends are asked for; not to be read or written
        std::string_view request;  // head and body
        const RequestHead &head;   // may say that it is refused
        bool last;                 // the connection is closed behind the answer
        // Sends a part of the answer. False: nobody takes it any more.
        std::function<bool(const char *, size_t)> give;
    };
    // Returns whether the connection may be used again. Called in several threads at once.
    using Answer = std::function<bool(const Call &)>;
    // Bytes that mean nothing. At the end of an answer these very bytes may be given any number of
    // times: they are only counted.
    static std::string_view blank();

    // Who is let in, and how.
    struct Access {
        int64_t most_of_address = 0;      // connections that have not sent a request
        TlsIdentity *identity = nullptr;  // outlives the gate; null: nobody speaks TLS
        bool tls_only = false;            // what comes in the clear is refused
    };

    RequestGate(Answer answer, Access access)
        : answer_(std::move(answer)), access_(access),
          newcomers_(static_cast<size_t>(access.most_of_address))
    {}
    ~RequestGate() { stop(); }

    // Serves this socket, which listens and does not block.
    Result<void> start(Fd listening);
    // Answers what is whole already, closes the rest.
    void stop();

private:
    struct Connection {
        PeerStream stream;
        std::string origin;
        uint64_t number = 0;  // among newcomers_; 0: not there
        std::string received;
        size_t searched = 0;  // of `received`, for the end of a head
        size_t needs = 0;     // bytes of the request that comes; 0: not known yet
        RequestHead head;
        std::deque<std::string> untaken;  // of the answer
        size_t taken = 0;                 // of the first of these
        size_t kept = 0;                  // bytes of all
        size_t blank = 0;                 // bytes behind them that mean nothing
        bool last = false;                // nothing is answered any more
        bool lost = false;
        int answered = 0;
        Time deadline;
    };
    using Waiting = std::map<int, Connection>;

    // Of watch() alone.
    void watch();
    void look_at(int fd);
    void accept_some();
    void let_in(Connection connection);
    void take_back();
    void read_from(Waiting::iterator at);
    void write_to(Waiting::iterator at);
    static bool waits_for_reader(const Connection &connection)
    {
        return connection.kept != 0 || connection.blank != 0;
    }
    static ssize_t send_some(Connection &connection);
    void hand_over(Waiting::iterator at);
    void drop(Waiting::iterator at);
    bool drop_in_the_way(const std::string &origin, bool full);
    void drop_one(uint64_t number, const char *why);
    void bound_untaken();
    Time sweep(Time now);
    bool is_whole(Connection &connection) const;

    void work();
    void answer(Connection &connection);
    bool give(Connection &connection, const char *data, size_t size);
    void wake();
    bool full();

    Answer answer_;
    const Access access_;
    Fd listening_, epoll_, waker_;
    size_t limit_ = 0;  // of connections
    Waiting waiting_;
    Newcomers newcomers_;  // all in waiting_
    std::map<uint64_t, int> descriptors_;
    Time told_{};  // when the log had a line on what was closed for others
    size_t untold_ = 0;
    std::thread watcher_;
    std::vector<std::thread> workers_;
    std::atomic<size_t> kept_{0};  // bytes of all connections' answers

    std::mutex mutex_;
    std::condition_variable some_;
    std::deque<Connection> ready_;      // to be answered
    std::vector<Connection> returned_;  // answered
    size_t open_ = 0;
    bool ending_ = false;
};

}  // namespace rgpu::serverd
