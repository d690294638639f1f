// SPDX-License-Identifier: Apache-2.0
// Module images on the wire: they go as their bytes, or as a digest where the server has kept the
// bytes. Layout: doc/protocol.md, "Images".
#pragma once

#include <cstddef>
#include <cstdint>

#include "util/sha256.h"

namespace rgpu::wire {

// Stands in front of the last part of the body of a load or of a link's input.
enum class ImageForm : uint8_t {
    bytes = 0,   // the image
    digest = 1,  // its SHA-256
};

// The first byte of the answer.
enum class ImageAnswer : uint8_t {
    done = 0,     // carried out
    kept = 1,     // carried out, and from now on the digest is enough
    missing = 2,  // nothing was done: send the bytes
};

// Options of the compiler that a load or a link takes at most; there are some forty.
inline constexpr uint32_t kMaxJitOptions = 64;

// Smaller images always go as they are: the digest would save nothing.
inline constexpr size_t kSmallestKeptImage = 4096;

// What the snapshot says of an image that the server has kept: the digest's first bytes. A false
// guess costs one round trip, no more.
inline uint64_t image_tag(const Digest &d)
{
    uint64_t tag;
    __builtin_memcpy(&tag, d.data(), sizeof tag);
    return tag;
}
inline constexpr size_t kMaxImageTags = 8192;

}  // namespace rgpu::wire
