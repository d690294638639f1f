// SPDX-License-Identifier: Apache-2.0
// Frames that travel packed, and how the two sides come to it (net/packing/packer.h).
//
// A frame may be cut into parts of up to kPartBytes, each packed by itself: a header, and its
// bytes. The parts are the whole frame, its own header included, and nothing more. Of a part's
// FrameHeader `bytes` is what follows, `type` kPartCall or ServerFrame::part, `flags` kLast for the
// frame's last part, `sequence` a PackMethod and `value` the bytes that it becomes.
#pragma once

#include <cstdint>

namespace rgpu::wire {

// Call numbers that are none of the table's.
inline constexpr uint16_t kPackingCall = 0xfff4;  // body: Packing
inline constexpr uint16_t kPartCall = 0xfff5;

inline constexpr uint32_t kPartBytes = 256u << 10;

enum class PackMethod : uint32_t {
    stored = 0,
    lz4 = 1,
    zstd = 2
};  // the block format of LZ4, a frame of zstd (RFC 8878)
constexpr uint32_t bit(PackMethod m) { return 1u << static_cast<uint32_t>(m); }

enum class PackWish : uint32_t { no = 0, slow_link = 1, always = 2 };

// What a client says of itself, once or often, where the server knows packed frames (kTakesPacked).
// Without methods: only that it knows them, too, so that it may be told of the link
// (ServerFrame::link). With methods it wants a reply, whose body is those of them that the worker
// has, u32; from then on both sides may pack by these.
struct Packing {
    uint32_t methods = 0;          // bits of PackMethod
    PackWish wish = PackWish::no;  // for what the worker sends
    uint64_t rate = 0;             // with slow_link: bytes a second that it comes with
};
static_assert(sizeof(Packing) == 16);

}  // namespace rgpu::wire
