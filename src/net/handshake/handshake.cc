// SPDX-License-Identifier: Apache-2.0
// Challenge and response with a lease's secret.
#include "net/handshake/handshake.h"

#include <sys/random.h>
#include <unistd.h>

#include <cstring>

#include "net/transport/tcp_ends.h"

namespace rgpu::net {

namespace {

bool fill_random(wire::Nonce &n)
{
    return getrandom(n.data(), n.size(), 0) == static_cast<ssize_t>(n.size());
}

template <size_t N> void put(char (&field)[N], const std::string &s)
{
    memcpy(field, s.data(), std::min(s.size(), N - 1));
}

template <size_t N> std::string get(const char (&field)[N])
{
    return std::string(field, strnlen(field, N));
}

// What a stranger may have said, for a terminal.
std::string printable(std::string text)
{
    for (char &c : text)
        if (c < 0x20 || c > 0x7e) c = '?';
    return text;
}

template <class Hello> Result<void> check_version(const Hello &h)
{
    if (h.magic != wire::kMagic) return error(ErrorKind::invalid, "the peer does not speak rgpu");
    if (h.version != wire::kProtocolVersion)
        return error(ErrorKind::invalid,
                     "the peer speaks protocol %u, this side %u: install the same rgpu on both",
                     h.version, wire::kProtocolVersion);
    return {};
}

// To a client that has proved nothing; so this has no proof either.
void refuse(int fd, const std::string &why, Deadline deadline)
{
    wire::ServerVerdict verdict;
    put(verdict.text, why);
    (void)send_all(fd, &verdict, sizeof verdict, deadline).has_value();
}

}  // namespace

Result<Accepted> client_handshake(int fd, const std::string &lease, const std::string &secret,
                                  uint64_t table_digest, Deadline deadline, wire::Purpose purpose)
{
    wire::ServerHello server;
    if (auto r = receive_all(fd, &server, sizeof server, deadline); !r) return std::move(r).error();
    if (auto r = check_version(server); !r) return std::move(r).error();
    if (server.flags & ~wire::kEncrypted)
        return error(ErrorKind::invalid, "the server asks for something that this side does not "
                                         "know: install the same rgpu on both");

    wire::ClientHello hello;
    if (lease.size() >= sizeof hello.lease) return error(ErrorKind::invalid, "lease id too long");
    if (!fill_random(hello.nonce)) return error(ErrorKind::internal, "no random numbers");
    put(hello.lease, lease);
    gethostname(hello.host, sizeof hello.host - 1);
    hello.pid = static_cast<uint32_t>(getpid());
    hello.table_digest = table_digest;
    hello.purpose = purpose;
    hello.flags = server.flags;
    hello.proof = wire::client_proof(secret, server, hello);
    if (auto r = send_all(fd, &hello, sizeof hello, deadline); !r) return std::move(r).error();

    wire::ServerVerdict verdict;
    if (auto r = receive_all(fd, &verdict, sizeof verdict, deadline); !r)
        return std::move(r).error();
    if (verdict.magic != wire::kMagic) return error(ErrorKind::invalid, "garbled verdict");
    // A server that does not know the lease has nothing to prove it with: whoever sits between can
    // say no, as he can cut the wire.
    if (!verdict.accepted)
        return error(ErrorKind::invalid, "%s", printable(get(verdict.text)).c_str());
    Digest expected = wire::whole_proof(secret, wire::kServerLabel, server, hello, verdict);
    if (!equal_in_constant_time(expected.data(), verdict.proof.data(), expected.size()))
        return error(ErrorKind::invalid, "the server does not hold this lease's secret");
    Accepted accepted;
    if (server.flags & wire::kEncrypted)
        accepted.key = wire::whole_proof(secret, wire::kKeyLabel, server, hello, verdict);
    accepted.takes_offers = verdict.accepted & wire::kTakesOffers;
    accepted.takes_ucx = verdict.accepted & wire::kTakesUcx;
    accepted.takes_packed = verdict.accepted & wire::kTakesPacked;
    accepted.takes_lanes = verdict.accepted & wire::kTakesLanes;
    accepted.takes_band = verdict.accepted & wire::kTakesBand;
    accepted.takes_placed = verdict.accepted & wire::kTakesPlaced;
    accepted.takes_linked = verdict.accepted & wire::kTakesLinked;
    accepted.takes_pools = verdict.accepted & wire::kTakesPools;
    accepted.takes_nccl = verdict.accepted & wire::kTakesNccl;
    return accepted;
}

Result<wire::ServerHello> greet(int fd, const Terms &terms, Deadline deadline)
{
    wire::ServerHello mine;
    mine.flags = terms.encrypt ? wire::kEncrypted : 0;
    if (!fill_random(mine.nonce)) return error(ErrorKind::internal, "no random numbers");
    if (auto r = send_all(fd, &mine, sizeof mine, deadline); !r) return std::move(r).error();
    return mine;
}

Result<Client> server_handshake(int fd, const SecretLookup &lookup, Deadline deadline,
                                const Terms &terms)
{
    Result<wire::ServerHello> mine = greet(fd, terms, deadline);
    if (!mine) return std::move(mine).error();
    wire::ClientHello hello;
    if (auto r = receive_all(fd, &hello, sizeof hello, deadline); !r) return std::move(r).error();
    return answer_hello(fd, *mine, hello, lookup, terms, deadline);
}

Result<Client> answer_hello(int fd, const wire::ServerHello &mine, const wire::ClientHello &hello,
                            const SecretLookup &lookup, const Terms &terms, Deadline deadline)
{
    if (auto r = check_version(hello); !r) {
        refuse(fd, r.error().text, deadline);
        return std::move(r).error();
    }
    Client client{get(hello.lease),   get(hello.host), hello.pid,
                  hello.table_digest, hello.purpose,   {}};

    // An unknown lease costs the same work as a known one.
    std::optional<std::string> secret = lookup(client.lease);
    Digest expected = wire::client_proof(secret.value_or("no such lease"), mine, hello);
    bool right = hello.flags == mine.flags &&
                 equal_in_constant_time(expected.data(), hello.proof.data(), expected.size());
    if (!secret || !right) {
        refuse(fd, kUnknownLease, deadline);
        return error(ErrorKind::invalid, "%s",
                     secret ? "wrong secret" : "unknown or expired lease");
    }
    wire::ServerVerdict verdict;
    auto tell = [&] {
        verdict.proof = wire::whole_proof(*secret, wire::kServerLabel, mine, hello, verdict);
        return send_all(fd, &verdict, sizeof verdict, deadline);
    };
    // A lane of an encrypted connection would be none.
    if (hello.purpose > wire::Purpose::lane ||
        (hello.purpose == wire::Purpose::lane && terms.encrypt)) {
        put(verdict.text, "this server does not know what the connection is for");
        (void)tell().has_value();
        return error(ErrorKind::invalid, "unknown purpose %u",
                     static_cast<unsigned>(hello.purpose));
    }
    // An encrypted connection stays one: what is inside is the tunnel's. And how much packed bytes
    // shrink tells of them.
    const bool offers = hello.purpose == wire::Purpose::work && !terms.encrypt;
    verdict.accepted = wire::kAccepted;
    if (hello.purpose == wire::Purpose::work)
        verdict.accepted |= wire::kTakesBand | wire::kTakesPlaced | wire::kTakesLinked |
                            wire::kTakesPools | wire::kTakesNccl;
    if (offers) verdict.accepted |= wire::kTakesPacked | wire::kTakesLanes;
    if (offers && terms.shared && ends_meet(fd)) verdict.accepted |= wire::kTakesOffers;
    if (offers && terms.ucx) verdict.accepted |= wire::kTakesUcx;
    if (terms.encrypt)
        client.key = wire::whole_proof(*secret, wire::kKeyLabel, mine, hello, verdict);
    if (auto r = tell(); !r) return std::move(r).error();
    return client;
}

}  // namespace rgpu::net
