// SPDX-License-Identifier: Apache-2.0
// Reads textures as the CUDA C++ Programming Guide says, "Texture Fetching".
#include "softgpu/texture.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "softgpu/abi.h"

namespace rgpu::softgpu {

namespace {

struct Texel {
    float f[4] = {};
    uint32_t bits[4] = {};  // integers that come as they are
};

template <class T> T read_as(const uint8_t *p)
{
    T v;
    memcpy(&v, p, sizeof v);
    return v;
}

float from_srgb(float v)
{
    return v <= 0.04045f ? v / 12.92f : std::pow((v + 0.055f) / 1.055f, 2.4f);
}

unsigned bytes_of(TexelFormat f)
{
    switch (f) {
    case TexelFormat::u8:
    case TexelFormat::s8: return 1;
    case TexelFormat::u16:
    case TexelFormat::s16:
    case TexelFormat::f16: return 2;
    default: return 4;
    }
}

void channel(const Texture &t, const uint8_t *p, float &f, uint32_t &bits)
{
    switch (t.format) {
    case TexelFormat::u8: bits = *p, f = static_cast<float>(*p) / 255.0f; break;
    case TexelFormat::u16:
        bits = read_as<uint16_t>(p), f = static_cast<float>(bits) / 65535.0f;
        break;
    case TexelFormat::s8:
        bits = static_cast<uint32_t>(read_as<int8_t>(p)),
        f = std::max(static_cast<float>(read_as<int8_t>(p)) / 127.0f, -1.0f);
        break;
    case TexelFormat::s16:
        bits = static_cast<uint32_t>(read_as<int16_t>(p)),
        f = std::max(static_cast<float>(read_as<int16_t>(p)) / 32767.0f, -1.0f);
        break;
    case TexelFormat::u32:
    case TexelFormat::s32: bits = read_as<uint32_t>(p), f = std::bit_cast<float>(bits); break;
    case TexelFormat::f16:
        f = static_cast<float>(read_as<_Float16>(p)), bits = std::bit_cast<uint32_t>(f);
        break;
    case TexelFormat::f32: f = read_as<float>(p), bits = std::bit_cast<uint32_t>(f); break;
    }
    const bool integer = t.format < TexelFormat::f16;
    if (integer && t.as_integer)
        f = std::bit_cast<float>(bits);
    else if (integer)
        bits = std::bit_cast<uint32_t>(f);
}

// Along one axis: the texel for index i, or -1 for the border.
int64_t place(int64_t i, uint32_t size, TextureAddress how)
{
    const int64_t n = size;
    switch (how) {
    case TextureAddress::wrap: return ((i % n) + n) % n;
    case TextureAddress::mirror: {
        const int64_t at = ((i % (2 * n)) + 2 * n) % (2 * n);
        return at < n ? at : 2 * n - 1 - at;
    }
    case TextureAddress::border: return i < 0 || i >= n ? -1 : i;
    case TextureAddress::clamp: break;
    }
    return std::clamp<int64_t>(i, 0, n - 1);
}

Texel texel(const Texture &t, const int64_t (&at)[3])
{
    const uint32_t size[3] = {t.width, t.height, t.depth};
    int64_t in[3];
    Texel result;
    for (int i = 0; i < 3; ++i) {
        // Wrapping and mirroring are for normalised coordinates; else they clamp.
        TextureAddress how = t.address[i];
        if (!t.normalised && how != TextureAddress::border) how = TextureAddress::clamp;
        if (t.fetch_only) how = TextureAddress::border;
        in[i] = place(at[i], size[i], how);
        if (in[i] >= 0) continue;
        for (int c = 0; c < 4; ++c) {
            result.f[c] = t.fetch_only ? 0 : t.border[c];
            result.bits[c] = std::bit_cast<uint32_t>(result.f[c]);
        }
        return result;
    }
    const unsigned bytes = bytes_of(t.format);
    const uint8_t *p = t.data + static_cast<size_t>(in[2]) * t.slice +
                       static_cast<size_t>(in[1]) * t.pitch +
                       static_cast<size_t>(in[0]) * bytes * t.channels;
    for (unsigned c = 0; c < t.channels; ++c) {
        channel(t, p + c * bytes, result.f[c], result.bits[c]);
        if (t.srgb && c < 3) {
            result.f[c] = from_srgb(result.f[c]);
            result.bits[c] = std::bit_cast<uint32_t>(result.f[c]);
        }
    }
    // Channels that are not there are 0, the fourth too, as CUDA's own reads give them.
    return result;
}

int64_t floor_of(float v)
{
    if (!(v > -1e9f)) return -1'000'000'000;
    if (v > 1e9f) return 1'000'000'000;
    return static_cast<int64_t>(std::floor(v));
}

}  // namespace

}  // namespace rgpu::softgpu

using namespace rgpu::softgpu;

extern "C" void rt_tex(rgpu_block *block, uint64_t object, uint32_t how,
                       const uint32_t *coordinates, uint32_t *out)
{
    const auto *t = reinterpret_cast<const Texture *>(object);
    // (An object that is none may fault here: the kernel's illegal address.)
    if (!t || object % alignof(Texture) || t->magic != Texture::kMagic) rt_trap(block);

    const unsigned dimensions = how & kTexDimensions;
    int64_t first[3] = {0, 0, 0};
    float rest[3] = {0, 0, 0};
    if (how & kTexLayered) {
        first[2] =
            std::clamp<int64_t>(static_cast<int32_t>(coordinates[0]), 0, int64_t{t->depth} - 1);
        ++coordinates;
    }
    const bool filter = (t->linear || how & kTexGather) && !t->fetch_only && !(how & kTexByInteger);
    const uint32_t size[3] = {t->width, t->height, t->depth};
    for (unsigned i = 0; i < dimensions; ++i) {
        if (how & kTexByInteger) {
            first[i] = static_cast<int32_t>(coordinates[i]);
            continue;
        }
        float x = std::bit_cast<float>(coordinates[i]);
        if (t->normalised) x *= static_cast<float>(size[i]);
        if (filter) x -= 0.5f;
        first[i] = floor_of(x);
        // Eight bits of fraction, so that 1.0 is among the values.
        if (filter) rest[i] = std::round((x - static_cast<float>(first[i])) * 256.0f) / 256.0f;
        if (!(rest[i] >= 0 && rest[i] <= 1)) rest[i] = 0;  // of NaN and of coordinates far outside
    }

    Texel result;
    if (how & kTexGather) {
        const unsigned c = how >> 8 & 3;
        static constexpr int order[4][2] = {{0, 1}, {1, 1}, {1, 0}, {0, 0}};  // as tld4 gives them
        for (int i = 0; i < 4; ++i) {
            const Texel v = texel(*t, {first[0] + order[i][0], first[1] + order[i][1], first[2]});
            result.f[i] = v.f[c];
            result.bits[i] = v.bits[c];
        }
    } else if (!filter) {
        result = texel(*t, first);
    } else {
        for (unsigned corner = 0; corner < 1u << dimensions; ++corner) {
            int64_t at[3] = {first[0], first[1], first[2]};
            float weight = 1;
            for (unsigned i = 0; i < dimensions; ++i) {
                const bool second = corner >> i & 1;
                at[i] += second;
                weight *= second ? rest[i] : 1 - rest[i];
            }
            if (weight == 0) continue;
            const Texel v = texel(*t, at);
            for (int c = 0; c < 4; ++c) result.f[c] += weight * v.f[c];
        }
        for (int c = 0; c < 4; ++c) result.bits[c] = std::bit_cast<uint32_t>(result.f[c]);
    }
    for (int c = 0; c < 4; ++c)
        out[c] = how & (kTexAsU32 | kTexAsS32) ? result.bits[c]
                                               : std::bit_cast<uint32_t>(result.f[c]);
}
