// SPDX-License-Identifier: Apache-2.0
// The handshake's messages: what is said before the first frame. Fixed layouts, no pointers.
//
//   server -> client  ServerHello: who I am, a nonce, whether what follows is encrypted
//   client -> server  ClientHello: which lease, a nonce, the same flags, proof that I hold the
//   lease's secret server -> client  ServerVerdict: what I take, and proof that I hold it too; or
//   why not, and the connection closes
//
// The secret is never sent. A proof is HMAC-SHA256 (RFC 2104) with the secret as key over a label
// and every byte that was said until then, compared in constant time: nobody between the two can
// change what a connection is for, or what the server said, or talk them out of encryption. The
// labels differ, so that no proof of one side is one of the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "util/sha256.h"
#include "wire/frame.h"

namespace rgpu::wire {

inline constexpr uint32_t kMagic = 0x55504752;  // "RGPU"
using Nonce = std::array<uint8_t, 32>;

enum HelloFlag : uint16_t {
    kEncrypted =
        1,  // after the verdict comes TLS 1.3 (net/transport/tunnel.h), and the frames inside it
};

struct ServerHello {
    uint32_t magic = kMagic;
    uint16_t version = kProtocolVersion;
    uint16_t flags = 0;  // HelloFlag bits
    Nonce nonce{};
};
static_assert(sizeof(ServerHello) == 40);

// What the connection is for: a worker of its own, nothing but to be there as long as the lease's
// holder is, or to carry bytes for a worker that a client has (lanes.h).
enum class Purpose : uint32_t { work = 0, hold = 1, lane = 2 };

struct ClientHello {
    uint32_t magic = kMagic;
    uint16_t version = kProtocolVersion;
    uint16_t flags = 0;  // as the server's
    Nonce nonce{};
    char lease[64] = {};  // NUL-ended
    char host[64] = {};   // for the log, NUL-ended
    uint32_t pid = 0;     // for the log
    Purpose purpose = Purpose::work;
    uint64_t table_digest = 0;  // calls::table_digest(); of a lane: its worker's number
    Digest proof{};
};
static_assert(sizeof(ClientHello) == 216);

enum Accepted : uint32_t {
    kAccepted = 1,
    kTakesOffers = 2,  // the worker's first frame may be an offer of shared memory
                       // (shared_offer.h); a client that does not know says nothing
    kTakesUcx = 4,     // ... or one of UCX (ucx_offer.h)
    kTakesPacked = 8,  // the worker knows packed frames (packing.h)
    kTakesLanes = 16,  // ... and lanes (lanes.h)
    kTakesBand = 32,   // ... and where the client wants its memory (bands.h)
    // ... and memory at addresses that the client chooses (bands.h)
    kTakesPlaced = 64,
    kTakesLinked = 128,  // ... and images that nvcc -rdc has linked (module_bodies.h)
    kTakesPools = 256,   // ... and pools of memory at such addresses (bands.h)
    kTakesNccl = 512,    // ... and calls of NCCL (nccl.h)
};

// Fits in front of a Refusal's text or a ServerProof's digest.
struct ServerVerdict {
    uint32_t magic = kMagic;
    uint32_t accepted =
        0;  // Accepted bits; 0: `text` says why not, with a proof if the client's was right
    Digest proof{};
    char text[152] = {};  // NUL-ended sentence
};
static_assert(sizeof(ServerVerdict) == 192);

inline constexpr std::string_view kClientLabel = "rgpu data client 2";
inline constexpr std::string_view kServerLabel = "rgpu data server 2";
inline constexpr std::string_view kKeyLabel = "rgpu data key 2";  // makes the TLS key, not a proof

// The client's proof, which stands last in its hello and is about all in front of it.
inline Digest client_proof(std::string_view secret, const ServerHello &server,
                           const ClientHello &client)
{
    std::string message(kClientLabel);
    message.append(reinterpret_cast<const char *>(&server), sizeof server);
    message.append(reinterpret_cast<const char *>(&client), offsetof(ClientHello, proof));
    return hmac_sha256(secret, message);
}
static_assert(offsetof(ClientHello, proof) + sizeof(Digest) == sizeof(ClientHello));

// Over the whole handshake, but for the verdict's own proof: that proof (kServerLabel), or the TLS
// key (kKeyLabel).
inline Digest whole_proof(std::string_view secret, std::string_view label,
                          const ServerHello &server, const ClientHello &client,
                          ServerVerdict verdict)
{
    verdict.proof = {};
    std::string message(label);
    message.append(reinterpret_cast<const char *>(&server), sizeof server);
    message.append(reinterpret_cast<const char *>(&client), sizeof client);
    message.append(reinterpret_cast<const char *>(&verdict), sizeof verdict);
    return hmac_sha256(secret, message);
}

}  // namespace rgpu::wire
