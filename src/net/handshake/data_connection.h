// SPDX-License-Identifier: Apache-2.0
// A client's connection to the data port: TCP, the handshake, and the tunnel where the server asks
// for one.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "net/handshake/handshake.h"
#include "net/transport/own_socket.h"
#include "net/transport/tunnel.h"
#include "wire/lanes.h"

namespace rgpu::net {

struct DataConnection {
    Fd fd;                           // to read and write
    std::shared_ptr<Tunnel> tunnel;  // null: fd is the TCP socket itself
    bool takes_offers = false;  // of shared memory, before anything else is sent (shared_offer.h)
    bool takes_ucx = false;     // offers of UCX, likewise (ucx_offer.h)
    bool takes_packed = false;  // packed frames (packer.h)
    bool takes_lanes = false;   // further connections (laned_transport.h)
    bool takes_band = false;    // a word on where memory is to lie (wire/bands.h)
    bool takes_placed = false;  // memory at addresses that the client chooses (wire/bands.h)
    bool takes_linked = false;  // images that nvcc -rdc has linked (wire/module_bodies.h)
    bool takes_pools = false;   // pools of memory at such addresses (wire/bands.h)
    bool takes_nccl = false;    // calls of NCCL (wire/nccl.h)

    // In the child of a fork: lets go of the connection, which stays the parent's.
    void leave_to_parent();
};

// A further connection to a client's worker (laned_transport.h).
struct Lane {
    OwnSocket socket;
    wire::LanePlace place = 0;
};
// `worker`: its number. Fails as connect() and client_handshake() do, and with `disconnected` where
// no worker takes it. A server that refuses connections, closes them at once or has too many
// handshakes under way is tried again for two seconds.
Result<Lane> connect_lane(const std::string &address, const std::string &lease,
                          const std::string &secret, uint64_t worker, Deadline);

// Why a connection to a worker has ended, for a person: asks the server, once.
std::string why_ended(const std::string &address, const std::string &lease,
                      const std::string &secret, Deadline);

// How long an rgpud that is started again may take until it listens.
inline constexpr std::chrono::seconds kRestartTime{15};

// For a worker. Fails as connect() and client_handshake() do, and with `unsupported` where the
// server asks for encryption and there is no OpenSSL here. A server that refuses connections, or
// closes them at once, is tried again for kRestartTime; `waiting` is called once, when that is more
// than a moment. Each try may take `limit`.
Result<DataConnection> connect_data(const std::string &address, const std::string &lease,
                                    const std::string &secret, uint64_t table_digest,
                                    std::chrono::milliseconds limit,
                                    const std::function<void()> &waiting);

}  // namespace rgpu::net
