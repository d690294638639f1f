// SPDX-License-Identifier: Apache-2.0
// The offer of a client to go on through UCX (net/ucx/ucx_offer.h): the body of its first frame,
// and what it says in the end.
#pragma once

#include <cstdint>

namespace rgpu::wire {

// Call numbers that are none of the table's.
inline constexpr uint16_t kUcxOfferCall = 0xfff2;  // body: UcxOffer, behind it the client's address
inline constexpr uint16_t kUcxSettleCall = 0xfff3;  // value 1: all goes on through UCX; 0: over TCP

struct UcxOffer {
    uint64_t word = 0;  // random: in every message of both
};
static_assert(sizeof(UcxOffer) == 8);

}  // namespace rgpu::wire
