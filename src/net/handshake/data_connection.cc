// SPDX-License-Identifier: Apache-2.0
#include "net/handshake/data_connection.h"

#include <algorithm>
#include <thread>

namespace rgpu::net {
namespace {

Result<DataConnection> connect_once(const std::string &address, const std::string &lease,
                                    const std::string &secret, uint64_t table_digest,
                                    Deadline deadline)
{
    auto fd = connect(address, deadline);
    if (!fd) return std::move(fd).error();
    auto accepted = client_handshake(fd->get(), lease, secret, table_digest, deadline);
    if (!accepted) return std::move(accepted).error();
    if (!accepted->key)
        return DataConnection{std::move(*fd),         nullptr,
                              accepted->takes_offers, accepted->takes_ucx,
                              accepted->takes_packed, accepted->takes_lanes,
                              accepted->takes_band,   accepted->takes_placed,
                              accepted->takes_linked, accepted->takes_pools,
                              accepted->takes_nccl};
    auto tunnel =
        Tunnel::open(std::move(*fd), Side::client, *accepted->key, private_openssl, deadline);
    if (!tunnel) return std::move(tunnel).error();
    Fd plain = (*tunnel)->take_plain();
    DataConnection inside{std::move(plain), std::move(*tunnel)};
    inside.takes_band = accepted->takes_band;
    inside.takes_placed = accepted->takes_placed;
    inside.takes_linked = accepted->takes_linked;
    inside.takes_pools = accepted->takes_pools;
    inside.takes_nccl = accepted->takes_nccl;
    return inside;
}

Result<Lane> connect_lane_once(const std::string &address, const std::string &lease,
                               const std::string &secret, uint64_t worker, Deadline deadline)
{
    auto fd = connect(address, deadline);
    if (!fd) return std::move(fd).error();
    Lane lane{OwnSocket(std::move(*fd))};
    const int socket = lane.socket.get();
    if (auto accepted =
            client_handshake(socket, lease, secret, worker, deadline, wire::Purpose::lane);
        !accepted)
        return std::move(accepted).error();
    if (auto r = receive_all(socket, &lane.place, sizeof lane.place, deadline); !r)
        return std::move(r).error();
    return lane;
}

// Between tries.
constexpr std::chrono::milliseconds kPause{100};

}  // namespace

Result<DataConnection> connect_data(const std::string &address, const std::string &lease,
                                    const std::string &secret, uint64_t table_digest,
                                    std::chrono::milliseconds limit,
                                    const std::function<void()> &waiting)
{
    constexpr std::chrono::milliseconds kMoment{1000};
    const auto begin = Clock::now();
    for (bool told = false;;) {
        auto connection = connect_once(address, lease, secret, table_digest, Clock::now() + limit);
        const auto waited = Clock::now() - begin;
        if (connection || connection.error().kind != ErrorKind::disconnected ||
            waited > kRestartTime)
            return connection;
        if (!told && waited > kMoment) waiting(), told = true;
        std::this_thread::sleep_for(kPause);
    }
}

Result<Lane> connect_lane(const std::string &address, const std::string &lease,
                          const std::string &secret, uint64_t worker, Deadline deadline)
{
    constexpr std::chrono::seconds kCrowded{2};
    for (const auto until = std::min(deadline, Clock::now() + kCrowded);;) {
        auto lane = connect_lane_once(address, lease, secret, worker, deadline);
        if (lane || lane.error().kind != ErrorKind::disconnected || Clock::now() + kPause > until)
            return lane;
        std::this_thread::sleep_for(kPause);
    }
}

std::string why_ended(const std::string &address, const std::string &lease,
                      const std::string &secret, Deadline deadline)
{
    auto fd = connect(address, deadline);
    if (!fd) return "the server is gone (" + fd.error().text + ")";
    // No worker has this number: where the lease is known, nothing comes of it.
    auto accepted = client_handshake(fd->get(), lease, secret, 0, deadline, wire::Purpose::lane);
    if (accepted || accepted.error().text.find(kUnknownLease) == std::string::npos)
        return accepted || accepted.error().kind == ErrorKind::invalid
                   ? "the server lives, and this program's worker died there (out of memory, or "
                     "killed: rgpud's log says how)"
                   : "the server does not answer (" + accepted.error().text + ")";
    return "the lease was ended there (rgpu release, its time was over, or the host took back a "
           "GPU that it had lent)";
}

void DataConnection::leave_to_parent()
{
    fd.reset();
    if (tunnel) tunnel->leave_to_parent();
}

}  // namespace rgpu::net
