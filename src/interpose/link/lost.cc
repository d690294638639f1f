// SPDX-License-Identifier: Apache-2.0
#include "interpose/link/lost.h"

#include <chrono>
#include <cstdlib>
#include <exception>

#include "interpose/base/lease.h"
#include "net/handshake/data_connection.h"

namespace rgpu::interpose {
namespace {

constexpr std::chrono::seconds kAskTime{2};

}  // namespace

std::string why_lost(const std::string &server)
try {
    const char *path = getenv("RGPU_LEASE");
    auto leases = path ? read_lease(path)
                       : Result<std::vector<LeaseServer>>(
                             error(ErrorKind::unavailable, "RGPU_LEASE is not set"));
    if (!leases) return "its lease file is gone, as it is when the job has ended";
    for (const LeaseServer &one : *leases)
        if (one.name + " (" + one.address + ")" == server)
            return net::why_ended(one.address, one.lease, one.secret, net::Clock::now() + kAskTime);
    return "this process' lease file does not name it any more";
} catch (const std::exception &) {
    return "this process lacks the memory to ask why";
}

}  // namespace rgpu::interpose
