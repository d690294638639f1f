// SPDX-License-Identifier: Apache-2.0
// A texture as the driver makes it and the engine reads it. A texture object is the address of one
// of these, which lives until the object is destroyed.
//
// The driver owns it and writes it before the program has the object; kernels only read. The driver
// has checked that the last texel lies in device memory. `magic` is taken away with the object, so
// that a kernel that uses it later is stopped.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rgpu::softgpu {

enum class TexelFormat : uint8_t { u8, u16, u32, s8, s16, s32, f16, f32 };
enum class TextureAddress : uint8_t { wrap, clamp, mirror, border };

struct Texture {
    static constexpr uint64_t kMagic = 0x3130'5845'5455'5047;

    uint64_t magic = kMagic;
    const uint8_t *data = nullptr;
    size_t pitch = 0, slice = 0;                // bytes from row to row, from layer to layer
    uint32_t width = 0, height = 1, depth = 1;  // texels; depth is also the number of layers
    TexelFormat format = TexelFormat::f32;
    uint8_t channels = 1;
    bool fetch_only = false;  // linear memory: by whole numbers, and zero outside
    bool linear = false;      // filter
    bool normalised = false;  // coordinates from 0 to 1
    bool as_integer = false;  // integers come as they are, not as 0 to 1
    bool srgb = false;
    TextureAddress address[3] = {TextureAddress::clamp, TextureAddress::clamp,
                                 TextureAddress::clamp};
    float border[4] = {};
};

// What a tex instruction asks for, in one number: rt_tex's `how`.
enum TextureAsk : uint32_t {
    kTexDimensions = 3,  // 1, 2 or 3 coordinates
    kTexLayered = 4,     // one more in front: the layer
    kTexByInteger = 8,   // the coordinates are whole texels
    kTexGather = 16,     // the four texels that a linear filter would use: channel in bits 8 and 9
    kTexAsU32 = 32,
    kTexAsS32 = 64,  // results; float otherwise
};

}  // namespace rgpu::softgpu
