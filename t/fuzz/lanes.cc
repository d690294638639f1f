// SPDX-License-Identifier: Apache-2.0
// Records of a stream that comes over several connections. The input: how many lanes, how the bytes
// behind are dealt to them, and what is received at once.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "net/transport/laned_transport.h"
#include "net/transport/own_socket.h"
#include "t/fuzz/pair.h"

using namespace rgpu;
using fuzz::Pair;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes < 3) return 0;
    const size_t lanes = data[0] % 4, ahead = data[1], at_once = 1 + data[2] * 8;
    data += 3, bytes -= 3;
    // So much of the input is each lane's, the rest the first connection's.
    const size_t of_lane = bytes / (lanes + 2);
    Pair first;
    net::LanedTransport transport(std::move(first.ours), nullptr, 1);
    std::vector<net::OwnSocket> sockets;
    for (size_t i = 0; i < lanes; i++) {
        Pair pair;
        (void)!write(pair.theirs.get(), data + i * of_lane, of_lane);
        sockets.emplace_back(std::move(pair.ours));
    }
    const uint8_t *rest = data + lanes * of_lane;
    const size_t left = bytes - lanes * of_lane, come = std::min(ahead, left);
    (void)!write(first.theirs.get(), rest + come, left - come);
    shutdown(first.theirs.get(), SHUT_WR);
    transport.add(std::move(sockets));
    transport.begin_receiving(rest, come);
    std::vector<uint8_t> to(at_once);
    for (int i = 0; i < 64 && transport.receive(to.data(), to.size(), 0) > 0; i++) {}
    return 0;
}
