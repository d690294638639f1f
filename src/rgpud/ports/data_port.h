// The data port: programs connect here, prove that they hold a lease, and get a worker.
//
// Nothing but the handshake is read. What fails it is closed, with one line in the log, and
// rgpud serves on. Connections that have proved nothing are bounded in number and in time.
#pragma once

#include <atomic>
#include <poll.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "rgpud/leases/service.h"
#include "rgpud/ports/metrics.h"
#include "rgpud/ports/newcomers.h"
#include "rgpud/ports/starts.h"
#include "util/fd.h"

namespace rgpu::serverd {

// Listens from bind() on, serves from start() on, in threads of its own, until stop().
class DataPort {
public:
    // All must outlive it.
    DataPort(const RgpudConfig &config, Service &service, Metrics &metrics);
    ~DataPort();

    // Returns the port. Fails with the address in the text.
    Result<int> bind();
    Result<void> start();
    // Waits for the handshakes under way: at most [rgpud] handshake_timeout, and a moment.
    void stop();

private:
    void serve();
    void take_one();
    void start(const std::string &lease, Fd socket, const Peer &peer, std::function<void()> &then);
    void refuse(const std::string &who, const std::string &lease, const Error &error);
    void shake_hands(Fd &socket, const std::string &peer, std::function<void()> &then);
    bool make_room(const std::string &origin);
    void hold(Fd socket, const std::string &lease);
    void look_at_holders(const std::vector<pollfd> &looks);

    const RgpudConfig &config_;
    Service &service_;
    Metrics &metrics_;
    Fd listening_, stopping_, new_holder_;
    std::thread thread_;
    std::mutex mutex_;
    std::condition_variable ended_;
    int64_t handshakes_ = 0, threads_ = 0;  // some of these have something to do behind theirs
    Newcomers newcomers_;                   // who has proved nothing yet
    std::map<uint64_t, int> unproved_;      // their sockets
    std::map<int, std::pair<Fd, std::string>>
        holders_;  // connections that hold a lease, by descriptor
    Starts starts_;
};

}  // namespace rgpu::serverd
