// SPDX-License-Identifier: Apache-2.0
// 500 servers on loopback that speak the control API: how long a reservation takes, and that nobody
// is asked twice.
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <cstdio>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <thread>

#include "pool/client/client.h"
#include "pool/ledger/ledger.h"
#include "pool/messages/error_json.h"
#include "pool/messages/inventory_json.h"
#include "pool/messages/lease_json.h"
#include "pool/messages/request_json.h"
#include "util/clock.h"

using namespace rgpu;
using namespace rgpu::pool;

static constexpr int kServers = 500;
static const Caller kRoot{0, true};

// All of the servers in one thread: each is a ledger behind a port of its own.
class Servers {
public:
    Servers()
    {
        epoll_ = epoll_create1(0);
        for (int i = 0; i < kServers; ++i) {
            std::vector<GpuState> gpus(static_cast<size_t>(1 + i % 8));
            for (size_t g = 0; g < gpus.size(); ++g) {
                gpus[g].index = static_cast<int>(g);
                gpus[g].uuid = "GPU-" + std::to_string(i) + "-" + std::to_string(g);
                gpus[g].memory = 1000;
            }
            ledgers_.push_back(std::make_unique<Ledger>(gpus, store_, Ledger::Limits{}));
            int fd = socket(AF_INET, SOCK_STREAM, 0);
            sockaddr_in address{};
            address.sin_family = AF_INET;
            address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
            socklen_t size = sizeof address;
            cr_assert(!bind(fd, reinterpret_cast<sockaddr *>(&address), size) && !listen(fd, 16));
            getsockname(fd, reinterpret_cast<sockaddr *>(&address), &size);
            ports.push_back(ntohs(address.sin_port));
            watch(fd, i, true);
        }
        thread_ = std::thread([this] { serve(); });
    }
    ~Servers()
    {
        ending_ = true;
        thread_.join();
    }

    std::vector<int> ports;
    std::atomic<int> asked[kServers] = {};

private:
    struct Peer {
        int server = 0;
        bool listening = false;
        std::string received;
    };

    void watch(int fd, int server, bool listening)
    {
        epoll_event event{};
        event.events = EPOLLIN;
        event.data.fd = fd;
        epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event);
        peers_[fd] = {server, listening, {}};
    }

    void serve()
    {
        while (!ending_) {
            epoll_event events[256];
            int count = epoll_wait(epoll_, events, 256, 50);
            for (int i = 0; i < count; ++i) handle(events[i].data.fd);
        }
    }

    void handle(int fd)
    {
        Peer &peer = peers_[fd];
        if (peer.listening) {
            watch(accept(fd, nullptr, nullptr), peer.server, false);
            return;
        }
        char bytes[4096];
        ssize_t n = recv(fd, bytes, sizeof bytes, 0);
        if (n <= 0) {
            peers_.erase(fd);
            close(fd);
            return;
        }
        peer.received.append(bytes, static_cast<size_t>(n));
        size_t end = peer.received.find("\r\n\r\n"), at = peer.received.find("Content-Length: ");
        if (end == std::string::npos) return;
        size_t body = at < end ? strtoul(peer.received.c_str() + at + 16, nullptr, 10) : 0;
        if (peer.received.size() < end + 4 + body) return;
        std::string answer =
            answer_to(peer.server, peer.received, peer.received.substr(end + 4, body));
        peer.received.clear();
        std::string reply = "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(answer.size()) +
                            "\r\n\r\n" + answer;
        cr_assert_eq(send(fd, reply.data(), reply.size(), 0), static_cast<ssize_t>(reply.size()));
    }

    std::string answer_to(int server, const std::string &request, const std::string &body)
    {
        Ledger &ledger = *ledgers_[static_cast<size_t>(server)];
        size_t id = request.find("/v1/offers/");
        if (id == std::string::npos) {
            ++asked[server];
            return encode(*ledger.offer(kRoot, *decode_request(body), now()));
        }
        std::string offer = request.substr(id + 11, 32);
        if (request.starts_with("DELETE")) return ledger.reject(kRoot, offer, now()) ? "{}" : "{}";
        return encode(Leases{7711, {*ledger.accept(kRoot, offer, now())}});
    }

    int epoll_;
    VolatileStore store_;
    std::vector<std::unique_ptr<Ledger>> ledgers_;
    std::map<int, Peer> peers_;
    std::atomic<bool> ending_ = false;
    std::thread thread_;
};

Test(many_servers, a_reservation_among_500_asks_each_once_and_is_quick)
{
    rlimit files{4096, 4096};
    setrlimit(RLIMIT_NOFILE, &files);
    Servers servers;
    Config config;
    config.auth.method = "none";
    config.client.server_timeout = Milliseconds(20000);
    for (int i = 0; i < kServers; ++i)
        config.servers.push_back(
            {"s" + std::to_string(i),
             "127.0.0.1:" + std::to_string(servers.ports[static_cast<size_t>(i)])});
    std::vector<int64_t> times;
    for (int round = 0; round < 11; ++round) {
        // A client of its own, as each rgpu run is: no connection is open yet.
        auto client = Client::create(config);
        cr_assert(client.has_value());
        Request request;
        request.gpus = 1 + round % 8;
        request.owner.host = "here";
        std::vector<int> before(servers.asked, servers.asked + kServers);
        auto start = std::chrono::steady_clock::now();
        auto outcome = client->acquire(request);
        times.push_back(
            std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now() - start)
                .count());
        cr_assert(outcome.has_value() && outcome->kind == Outcome::granted);
        cr_assert_eq(outcome->grants[0].lease.gpus.size(), static_cast<size_t>(request.gpus));
        for (int i = 0; i < kServers; ++i)
            cr_assert_eq(servers.asked[i] - before[static_cast<size_t>(i)], 1,
                         "server %d was asked %d times", i,
                         servers.asked[i] - before[static_cast<size_t>(i)]);
    }
    std::sort(times.begin(), times.end());
    fprintf(stderr, "500 servers: a reservation takes %lld ms (median of %zu; %lld to %lld)\n",
            static_cast<long long>(times[times.size() / 2]), times.size(),
            static_cast<long long>(times.front()), static_cast<long long>(times.back()));
    // The bar is for a machine that does nothing else.
    cr_assert_leq(times[times.size() / 2], getenv("RGPU_BARS") ? 100 : 5000);
}
