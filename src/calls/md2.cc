// SPDX-License-Identifier: Apache-2.0
// MD2 and HMAC-MD2, from RFC 1319 and RFC 2104.
#include "calls/md2.h"

#include <cstring>

namespace rgpu::calls {

namespace {

// RFC 1319, 3.2: a permutation of 0..255 made from the digits of pi.
// clang-format off
constexpr uint8_t kPi[256] = {
    41, 46, 67, 201, 162, 216, 124, 1, 61, 54, 84, 161, 236, 240, 6, 19,
    98, 167, 5, 243, 192, 199, 115, 140, 152, 147, 43, 217, 188, 76, 130, 202,
    30, 155, 87, 60, 253, 212, 224, 22, 103, 66, 111, 24, 138, 23, 229, 18,
    190, 78, 196, 214, 218, 158, 222, 73, 160, 251, 245, 142, 187, 47, 238, 122,
    169, 104, 121, 145, 21, 178, 7, 63, 148, 194, 16, 137, 11, 34, 95, 33,
    128, 127, 93, 154, 90, 144, 50, 39, 53, 62, 204, 231, 191, 247, 151, 3,
    255, 25, 48, 179, 72, 165, 181, 209, 215, 94, 146, 42, 172, 86, 170, 198,
    79, 184, 56, 210, 150, 164, 125, 182, 118, 252, 107, 226, 156, 116, 4, 241,
    69, 157, 112, 89, 100, 113, 135, 32, 134, 91, 207, 101, 230, 45, 168, 2,
    27, 96, 37, 173, 174, 176, 185, 246, 28, 70, 97, 105, 52, 64, 126, 15,
    85, 71, 163, 35, 221, 81, 175, 58, 195, 92, 249, 206, 186, 197, 234, 38,
    44, 83, 13, 110, 133, 40, 132, 9, 211, 223, 205, 244, 65, 129, 77, 82,
    106, 220, 55, 200, 108, 193, 171, 250, 36, 225, 123, 8, 12, 189, 177, 74,
    120, 136, 149, 139, 227, 99, 232, 109, 233, 203, 213, 254, 59, 0, 29, 57,
    242, 239, 183, 14, 102, 88, 208, 228, 166, 119, 114, 248, 235, 117, 75, 10,
    49, 68, 80, 180, 143, 237, 31, 26, 219, 153, 141, 51, 159, 17, 131, 20,
};
// clang-format on

constexpr int kRounds = 18;

}  // namespace

void Md2::add(const void *data, size_t bytes)
{
    const auto *p = static_cast<const uint8_t *>(data);
    while (bytes--) {
        pending_[filled_++] = *p++;
        if (filled_ == kBytes) block();
    }
}

void Md2::block()
{
    uint8_t last = checksum_[kBytes - 1];
    for (size_t i = 0; i < kBytes; i++) last = checksum_[i] ^= kPi[pending_[i] ^ last];

    uint8_t x[3 * kBytes];
    for (size_t i = 0; i < kBytes; i++) {
        x[i] = state_[i];
        x[kBytes + i] = pending_[i];
        x[2 * kBytes + i] = state_[i] ^ pending_[i];
    }
    uint8_t t = 0;
    for (int round = 0; round < kRounds; round++) {
        for (uint8_t &byte : x) t = byte ^= kPi[t];
        t = static_cast<uint8_t>(t + round);
    }
    memcpy(state_, x, kBytes);
    filled_ = 0;
}

void Md2::finish(uint8_t digest[kBytes])
{
    const auto padding = static_cast<uint8_t>(kBytes - filled_);
    for (unsigned i = 0; i < padding; i++) add(&padding, 1);
    uint8_t checksum[kBytes];
    memcpy(checksum, checksum_, kBytes);
    add(checksum, kBytes);
    memcpy(digest, state_, kBytes);
}

HmacMd2::HmacMd2(const void *key, size_t bytes)
{
    uint8_t inner[Md2::kBytes] = {}, outer[Md2::kBytes];
    memcpy(inner, key, bytes < sizeof inner ? bytes : sizeof inner);
    for (size_t i = 0; i < sizeof inner; i++) {
        outer[i] = inner[i] ^ 0x5c;
        inner[i] ^= 0x36;
    }
    inner_.add(inner, sizeof inner);
    outer_.add(outer, sizeof outer);
}

void HmacMd2::finish(uint8_t digest[Md2::kBytes])
{
    inner_.finish(digest);
    outer_.add(digest, Md2::kBytes);
    outer_.finish(digest);
}

}  // namespace rgpu::calls
