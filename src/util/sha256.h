// SHA-256 (FIPS 180-4) and HMAC-SHA256 (RFC 2104), in a few lines because the interposer may link
// nothing but libc.
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
    void block(const uint8_t *p);

    std::array<uint32_t, 8> h_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                               0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    std::array<uint8_t, 64> pending_{};
    uint64_t total_ = 0;
};

Digest sha256(std::string_view data);
Digest hmac_sha256(std::string_view key, std::string_view message);

// Compares without telling by its time where the first difference is.
bool equal_in_constant_time(const void *a, const void *b, size_t bytes);

std::string to_hex(const void *data, size_t bytes);
inline std::string to_hex(const Digest &d) { return to_hex(d.data(), d.size()); }
// The bytes of an even number of hex digits; false on anything else.
bool from_hex(std::string_view hex, std::string &bytes);

}  // namespace rgpu
