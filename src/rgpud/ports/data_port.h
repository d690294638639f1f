// SPDX-License-Identifier: Apache-2.0
// The data port: programs connect here, prove that they hold a lease, and get a worker.
//
// Nothing but the handshake is read. What fails it is closed, with one line in the log, and
// rgpud serves on. Connections that have proved nothing are bounded in number and in time, and one
// thread serves them all; each that has proved a lease gets a thread until it has its worker. The
// lines that strangers write to the log are bounded, too.
#pragma once

#include <poll.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "net/handshake/handshake.h"
#include "rgpud/leases/service.h"
#include "rgpud/ports/complaints.h"
#include "rgpud/ports/metrics.h"
#include "rgpud/ports/newcomers.h"
#include "rgpud/ports/starts.h"
#include "util/fd.h"

namespace rgpu::serverd {

// Listens from bind() on, serves from start() on, in threads of its own, until stop().
class DataPort {
public:
    // All must outlive it.
    DataPort(const RgpudConfig &config, Service &service, Metrics &metrics, Audit &audit);
    ~DataPort();

    // Returns the port. Fails with the address in the text.
    Result<int> bind();
    Result<void> start();
    // Waits for the handshakes under way: at most [rgpud] handshake_timeout, and a moment.
    void stop();

private:
    // Who has connected, and what he has said so far.
    struct Stranger {
        Fd socket;
        std::string peer;
        net::Terms terms;
        wire::ServerHello greeting;
        wire::ClientHello hello;
        size_t got = 0;  // bytes of it
        net::Deadline deadline;
    };
    void serve();
    std::vector<pollfd> what_to_look_at();
    void take_one();
    net::Terms terms_of(int socket) const;
    void make_room(const std::string &origin);
    void look_at_strangers(const std::vector<pollfd> &looks);
    bool read_hello(Stranger &stranger);
    void close_late();
    void forget(uint64_t stranger);
    void prove(Stranger stranger);
    void serve_client(Fd socket, const net::Client &client, const std::string &peer,
                      std::function<void()> &then);
    void start(const std::string &lease, Fd socket, const Peer &peer, std::function<void()> &then);
    void refuse(const std::string &who, const std::string &lease, const Error &error);
    void hold(Fd socket, const std::string &lease);
    void look_at_holders(const std::vector<pollfd> &looks);
    void wake();

    const RgpudConfig &config_;
    Service &service_;
    Metrics &metrics_;
    Audit &audit_;
    const bool ucx_;  // offers of it are taken
    Fd listening_, stopping_, wake_;
    std::thread thread_;
    Complaints strangers_said_{"data port"}, clients_said_{"data port"};

    // Of that thread alone: who has proved nothing yet, the oldest first.
    Newcomers newcomers_;
    std::map<uint64_t, Stranger> strangers_;

    std::mutex mutex_;
    std::condition_variable ended_;
    // Of those that have proved a lease; of these, before they have their worker.
    int64_t threads_ = 0, starting_ = 0;
    std::map<int, std::pair<Fd, std::string>>
        holders_;  // connections that hold a lease, by descriptor
    Starts starts_;
};

}  // namespace rgpu::serverd
