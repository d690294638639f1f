// Where the device memory of a program lies: band k of its k-th server, the same on every host
// (doc/addresses.md).
//
// Linux puts nothing of its own there: programs lie below, libraries and stacks above.
#pragma once

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

}  // namespace rgpu::wire
