// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4) and HMAC-SHA256 (RFC 2104), in a few lines because the interposer may link
// nothing but libc. With the processor's own instructions where it has them: module images are
// hashed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace rgpu {

using Digest = std::array<uint8_t, 32>;

// Feed bytes with add(), then take the digest once.
class Sha256 {
public:
    Sha256 &add(const void *data, size_t bytes);
    Sha256 &add(std::string_view s) { return add(s.data(), s.size()); }
    Digest digest();

private:
    std::array<uint32_t, 8> h_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                               0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    std::array<uint8_t, 64> pending_{};
    uint64_t total_ = 0;
};

// Takes whole blocks of 64 bytes into the state `h`. The second where the processor has
// instructions for it.
void sha256_blocks(uint32_t h[8], const uint8_t *p, size_t blocks);
void sha256_blocks_by_processor(uint32_t h[8], const uint8_t *p, size_t blocks);
bool has_sha_instructions();

Digest sha256(std::string_view data);
Digest hmac_sha256(std::string_view key, std::string_view message);

// Compares without telling by its time where the first difference is.
bool equal_in_constant_time(const void *a, const void *b, size_t bytes);

std::string to_hex(const void *data, size_t bytes);
inline std::string to_hex(const Digest &d) { return to_hex(d.data(), d.size()); }
// The bytes of an even number of hex digits; false on anything else.
bool from_hex(std::string_view hex, std::string &bytes);

}  // namespace rgpu
