// SPDX-License-Identifier: Apache-2.0
// Where the device memory of a program lies: band k of its k-th server, the same on every host
// (doc/addresses.md).
//
// Linux puts nothing of its own there: programs lie below, libraries and stacks above.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rgpu::wire {

inline constexpr uint64_t kBandBytes = uint64_t{1} << 40;
inline constexpr uint32_t kBands = 32;
inline constexpr uint64_t kFirstBand = 0x5800'0000'0000;
constexpr uint64_t band_begin(uint32_t index) { return kFirstBand + index * kBandBytes; }

// A call number that is none of the table's. Body: the band that this server's memory is to lie in,
// u32; without it that is band 0. Once, before any call that takes memory, and only where the
// server knows bands (kTakesBand). No reply.
inline constexpr uint16_t kBandCall = 0xffef;

// Another one: memory at addresses that the client chooses (kTakesPlaced). The body begins with a
// PlacedStep; doc/protocol.md has what follows.
inline constexpr uint16_t kPlacedCall = 0xffee;
enum class PlacedStep : uint32_t {
    credit = 0,
    allocate = 1,
    give_back = 2,
    // Memory of pools, which is no context's (kTakesPools).
    take_pages = 3,
    give_pages = 4,
    take_piece = 5,
};

// The part of the band that the client has for itself is its upper half.
constexpr uint64_t placed_begin(uint32_t index) { return band_begin(index) + kBandBytes / 2; }
inline constexpr uint64_t kPlacedBytes = kBandBytes / 2;
// Rows of cuMemAllocPitch begin at multiples of it: of all GPUs that have virtual memory.
inline constexpr uint64_t kPitch = 512;
// From one row to the next; 0 where the driver has something to say of the arguments.
constexpr uint64_t row_bytes(uint64_t width, uint64_t height, unsigned element)
{
    const bool sound = width && height && width <= UINT64_MAX - kPitch &&
                       (element == 4 || element == 8 || element == 16);
    return sound ? (width + kPitch - 1) / kPitch * kPitch : 0;
}
// What is larger the worker places.
inline constexpr uint64_t kMostPlaced = uint64_t{32} << 20;
// What a client may have as credit that it does not use, and the addresses that it may ask about
// at once.
inline constexpr uint64_t kMostCredit = uint64_t{64} << 20;
inline constexpr size_t kMostAsked = 4096;

struct CreditRequest {
    int32_t device = 0;
    uint32_t addresses = 0;  // so many follow, u64 each: freed memory, is it gone?
    uint64_t bytes = 0;      // which the client lacks; 0: it only asks
};
struct CreditAnswer {
    uint64_t begin = 0;    // the client's part of the band
    uint64_t bytes = 0;    // the credit that came now
    uint32_t others = 0;   // pages that other processes of the lease do not use
    uint32_t answers = 0;  // so many follow, u8 each: 1 for an address where no memory is
};

}  // namespace rgpu::wire
