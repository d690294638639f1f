// SPDX-License-Identifier: Apache-2.0
// What rgpud and rgpu-scheduler send each other: structs of fixed size, one a message of a
// SOCK_SEQPACKET, both of one version of rgpu.
//
// rgpud asks and the scheduler answers, in order, with the request's number; an answer to `view` or
// `collect` is a Reply and behind it `count` TenantViews or Givens. The answer to `seat` brings the
// worker's descriptor along, that to `kept` what `keep` brought before: so the next rgpud finds it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "share/board.h"
#include "util/fd.h"
#include "util/result.h"

namespace rgpu::share {

inline constexpr uint32_t kProtocol = 0x72670004;
inline constexpr size_t kUuidBytes = 64;
// More than the leases of a host that has them on all its GPUs.
inline constexpr size_t kMostGpus = 256;
inline constexpr size_t kMostKept = 16384;  // descriptors

enum class Ask : uint32_t {
    hello,    // are you there, and of my version?
    seat,     // for a worker of `lease` on `gpu`
    view,     // of `gpu`
    collect,  // of `gpu`
    keep,     // this descriptor, by the name in `gpu`, until the lease ends
    kept,     // by that name
    change,   // the terms and the memory of `lease` on `gpu`; the answer has how many were told
    end_lease,
    end,  // when no worker is left
};

struct Request {
    uint32_t protocol = kProtocol;
    Ask ask = Ask::hello;
    uint64_t number = 0;
    char gpu[kUuidBytes] = {};
    char lease[kKeyBytes] = {};
    Terms terms;
    uint64_t memory = 0;          // seat, change: bytes that the lease may have of it
    uint32_t most = kMaxWorkers;  // seat: so many the lease may have there; the oldest go
};

struct Reply {
    uint32_t protocol = kProtocol;
    uint32_t failed = 0;  // 1: cannot be done; 2: no such GPU or request
    uint64_t number = 0;
    uint32_t count = 0, workers = 0;
};

inline constexpr size_t kMostReply = sizeof(Reply) + kMaxTenants * sizeof(TenantView);

// Text from a field that may lack its end.
template <size_t Bytes> std::string text_of(const char (&field)[Bytes])
{
    size_t n = 0;
    while (n < Bytes && field[n]) ++n;
    return std::string(field, n);
}

// One message, a descriptor with it where there is one. Never blocks, raises no signal; 0 or errno.
int send_message(int socket, const void *bytes, size_t size, int descriptor = -1);
// What came: its size (0: the other end is gone), or -1 with errno. A message longer than `size` is
// EMSGSIZE. Never blocks.
ssize_t receive_message(int socket, void *bytes, size_t size, Fd *descriptor = nullptr);

}  // namespace rgpu::share
