// SPDX-License-Identifier: Apache-2.0
// The handshake. First byte 0 to 127: a client's hello as a server reads it; if it is odd, with the
// proof that only a holder of the lease can make, so that what is behind it is reached. From 128
// on: what a server says, as a client reads it.
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "net/handshake/handshake.h"
#include "t/fuzz/pair.h"

using namespace rgpu;
using fuzz::Pair;

namespace {

const std::string kLease(32, 'a'), kSecret(32, 's');

net::Deadline moment() { return net::Clock::now() + std::chrono::milliseconds(50); }

void serve(bool proved, bool encrypt, const uint8_t *data, size_t bytes)
{
    wire::ServerHello mine;
    wire::ClientHello hello;
    if (bytes < sizeof hello) return;
    memcpy(static_cast<void *>(&hello), data, sizeof hello);
    if (proved) {
        const wire::ClientHello good;
        hello.magic = good.magic, hello.version = good.version;
        hello.flags = mine.flags = encrypt ? wire::kEncrypted : 0;
        memcpy(hello.lease, kLease.data(), kLease.size());
        hello.proof = wire::client_proof(kSecret, mine, hello);
    }
    Pair pair;
    const auto lookup = [](const std::string &name) {
        return name == kLease ? std::optional(kSecret) : std::nullopt;
    };
    (void)net::answer_hello(pair.ours.get(), mine, hello, lookup, {.encrypt = encrypt}, moment())
        .has_value();
}

void visit(const uint8_t *data, size_t bytes)
{
    Pair pair;
    (void)!write(pair.theirs.get(), data, bytes);
    shutdown(pair.theirs.get(), SHUT_WR);
    (void)net::client_handshake(pair.ours.get(), kLease, kSecret, 1, moment()).has_value();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0) return 0;
    if (data[0] < 128)
        serve(data[0] & 1, data[0] & 2, data + 1, bytes - 1);
    else
        visit(data + 1, bytes - 1);
    return 0;
}
