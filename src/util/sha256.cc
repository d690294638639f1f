// SPDX-License-Identifier: Apache-2.0
// SHA-256 and HMAC as FIPS 180-4 and RFC 2104 describe them.
#include "util/sha256.h"

#include <immintrin.h>
#include <sys/platform/x86.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace rgpu {

namespace {

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t big_endian(const uint8_t *p)
{
    return uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | p[3];
}

}  // namespace

void sha256_blocks(uint32_t state[8], const uint8_t *p, size_t blocks)
{
    for (; blocks; blocks--, p += 64) {
        uint32_t w[64];
        for (int i = 0; i < 16; i++) w[i] = big_endian(p + 4 * i);
        for (int i = 16; i < 64; i++) {
            uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
            uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
            w[i] = w[i - 16] + s0 + w[i - 7] + s1;
        }
        uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
        uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
        for (int i = 0; i < 64; i++) {
            uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
            uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRound[i] + w[i];
            uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
            uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
            h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
        }
        const uint32_t sum[8] = {a, b, c, d, e, f, g, h};
        for (int i = 0; i < 8; i++) state[i] += sum[i];
    }
}

// Intel's SHA extensions: sha256rnds2 does two rounds on the state as the halves ABEF and CDGH.
[[gnu::target("sha,sse4.1,ssse3")]] void sha256_blocks_by_processor(uint32_t h[8], const uint8_t *p,
                                                                    size_t blocks)
{
    const __m128i big_endian_words = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    auto *state = reinterpret_cast<__m128i *>(h);
    const __m128i cdab = _mm_shuffle_epi32(_mm_loadu_si128(state), 0xb1);
    const __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128(state + 1), 0x1b);
    __m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
    for (; blocks; blocks--, p += 64) {
        const __m128i abef_before = abef, cdgh_before = cdgh;
        __m128i w[4];
        for (int i = 0; i < 4; i++)
            w[i] = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p) + i),
                                    big_endian_words);
        for (int i = 0; i < 16; i++) {
            const __m128i wk = _mm_add_epi32(
                w[i % 4], _mm_loadu_si128(reinterpret_cast<const __m128i *>(kRound) + i));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, wk);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(wk, 0x0e));
            // The four words that come 16 rounds later.
            const __m128i next = _mm_add_epi32(_mm_sha256msg1_epu32(w[i % 4], w[(i + 1) % 4]),
                                               _mm_alignr_epi8(w[(i + 3) % 4], w[(i + 2) % 4], 4));
            w[i % 4] = _mm_sha256msg2_epu32(next, w[(i + 3) % 4]);
        }
        abef = _mm_add_epi32(abef, abef_before), cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    const __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
    _mm_storeu_si128(state, _mm_blend_epi16(feba, dchg, 0xf0));
    _mm_storeu_si128(state + 1, _mm_alignr_epi8(dchg, feba, 8));
}

bool has_sha_instructions()
{
    static const bool has = [] {
        // As libc knows it: in a virtual machine each question to the processor costs microseconds,
        // and gcc's own asks many at each start.
        return CPU_FEATURE_ACTIVE(SSE4_1) && CPU_FEATURE_ACTIVE(SSSE3) && CPU_FEATURE_ACTIVE(SHA);
    }();
    return has;
}

Sha256 &Sha256::add(const void *data, size_t bytes)
{
    static const auto take_blocks = has_sha_instructions() ? sha256_blocks_by_processor
                                                           : sha256_blocks;
    auto p = static_cast<const uint8_t *>(data);
    while (bytes) {
        const size_t have = total_ % 64;
        if (!have && bytes >= 64) {
            const size_t blocks = bytes / 64;
            take_blocks(h_.data(), p, blocks);
            total_ += blocks * 64, p += blocks * 64, bytes -= blocks * 64;
            continue;
        }
        const size_t take = std::min(bytes, 64 - have);
        memcpy(pending_.data() + have, p, take);
        total_ += take, p += take, bytes -= take;
        if (total_ % 64 == 0) take_blocks(h_.data(), pending_.data(), 1);
    }
    return *this;
}

Digest Sha256::digest()
{
    const uint64_t bits = total_ * 8;
    const uint8_t one = 0x80, zero = 0;
    add(&one, 1);
    while (total_ % 64 != 56) add(&zero, 1);
    uint8_t length[8];
    for (int i = 0; i < 8; i++) length[i] = static_cast<uint8_t>(bits >> (56 - 8 * i));
    add(length, sizeof length);
    Digest d;
    for (int i = 0; i < 32; i++) d[i] = static_cast<uint8_t>(h_[i / 4] >> (24 - 8 * (i % 4)));
    return d;
}

Digest sha256(std::string_view data) { return Sha256().add(data).digest(); }

Digest hmac_sha256(std::string_view key, std::string_view message)
{
    uint8_t inner[64] = {}, outer[64] = {};
    Digest hashed;
    if (key.size() > sizeof inner) {
        hashed = sha256(key);
        key = {reinterpret_cast<const char *>(hashed.data()), hashed.size()};
    }
    memcpy(inner, key.data(), key.size());
    memcpy(outer, inner, sizeof outer);
    for (int i = 0; i < 64; i++) inner[i] ^= 0x36, outer[i] ^= 0x5c;
    Digest first = Sha256().add(inner, sizeof inner).add(message).digest();
    return Sha256().add(outer, sizeof outer).add(first.data(), first.size()).digest();
}

bool equal_in_constant_time(const void *a, const void *b, size_t bytes)
{
    auto x = static_cast<const volatile uint8_t *>(a), y = static_cast<const volatile uint8_t *>(b);
    unsigned difference = 0;
    for (size_t i = 0; i < bytes; i++) difference |= static_cast<unsigned>(x[i] ^ y[i]);
    return difference == 0;
}

std::string to_hex(const void *data, size_t bytes)
{
    static constexpr char digits[] = "0123456789abcdef";
    auto p = static_cast<const uint8_t *>(data);
    std::string hex;
    hex.reserve(2 * bytes);
    for (size_t i = 0; i < bytes; i++) hex += digits[p[i] >> 4], hex += digits[p[i] & 15];
    return hex;
}

bool from_hex(std::string_view hex, std::string &bytes)
{
    auto value = [](char c) {
        if (c >= '0' && c <= '9') return c - '0';
        if (c >= 'a' && c <= 'f') return c - 'a' + 10;
        if (c >= 'A' && c <= 'F') return c - 'A' + 10;
        return -1;
    };
    if (hex.size() % 2) return false;
    bytes.clear();
    for (size_t i = 0; i < hex.size(); i += 2) {
        int high = value(hex[i]), low = value(hex[i + 1]);
        if (high < 0 || low < 0) return false;
        bytes += static_cast<char>(high << 4 | low);
    }
    return true;
}

}  // namespace rgpu
