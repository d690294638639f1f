// SPDX-License-Identifier: Apache-2.0
// The offer of a client to go on through memory that both sides share
// (net/handshake/shared_offer.h): the body of its first frame.
#pragma once

#include <cstdint>

#include "util/sha256.h"

namespace rgpu::wire {

// A call number that is none of the table's.
inline constexpr uint16_t kSharedOfferCall = 0xfff1;

struct SharedOffer {
    // The client's end of the connection, as it sees it itself: another in the worker's eyes, and
    // something lies between the two.
    uint16_t family = 0;  // 4 or 6
    uint16_t port = 0;
    uint8_t address[16] = {};   // an IPv4 address is the first 4
    uint8_t name[16] = {};      // random: where the client listens (unix(7), abstract)
    Digest worker{}, client{};  // random: what each says there first, as nobody else can know it
};
static_assert(sizeof(SharedOffer) == 100);

}  // namespace rgpu::wire
