// SPDX-License-Identifier: Apache-2.0
// The frames of the data stream after the handshake. doc/protocol.md has the layout in words.
//
// All integers are little-endian, as both ends of rgpu are; the hello refuses anything else.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rgpu::wire {

// Raised when a frame's meaning changes, or the handshake's. Both sides must have the same.
inline constexpr uint16_t kProtocolVersion = 3;

// In front of every frame's body.
struct FrameHeader {
    uint32_t bytes = 0;     // of the body
    uint16_t type = 0;      // to the server: a CallId; to the client: a ServerFrame
    uint16_t flags = 0;     // Flag bits
    uint32_t sequence = 0;  // counts the client's frames; an answer repeats it
    uint32_t value =
        0;  // to the server: handle of the thread's current context; to the client: CUresult
};
static_assert(sizeof(FrameHeader) == 16);

enum Flag : uint16_t {
    kWantsReply = 1,   // client: answer this frame
    kLast = 2,         // server: the last frame that answers `sequence`
    kCallerWaits = 4,  // client: the calling thread waits for the answer, and nobody else can know
                       // that the call is over before
};

enum class ServerFrame : uint16_t {
    reply = 1,     // answers one call
    data = 2,      // bytes of a copy to the host
    text = 3,      // what kernels printed: goes to standard output
    snapshot = 4,  // the first frame: everything that does not change
    callback = 5,  // a stream has come to a host function: body is its token (u64)
    part = 6,      // some of a frame, packed (wire/packing.h)
    link = 7,  // how the client's bytes come in: body is bytes a second (u64), 0 for too fast to be
               // packed
};

// Largest body of a client's frame: small calls, chunks of copies, and module images.
inline constexpr uint32_t kMaxCallBytes = 1u << 20;
inline constexpr uint32_t kMaxCopyBytes = 1u << 20;
inline constexpr uint32_t kMaxImageBytes = 1u << 30;
// Largest body of a server's frame.
inline constexpr uint32_t kMaxServerBytes = 64u << 20;  // a linked image is the largest

}  // namespace rgpu::wire
