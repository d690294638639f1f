// SPDX-License-Identifier: Apache-2.0
// MD2 (RFC 1319) and HMAC-MD2 (RFC 2104): what cudart's integrity check is made of.
// Not for security: MD2 is broken. libc only, for the interposer.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rgpu::calls {

class Md2 {
public:
    static constexpr size_t kBytes = 16;  // block and digest alike

    void add(const void *data, size_t bytes);
    void finish(uint8_t digest[kBytes]);  // at most once

private:
    void block();

    uint8_t state_[kBytes] = {};
    uint8_t checksum_[kBytes] = {};
    uint8_t pending_[kBytes] = {};
    size_t filled_ = 0;
};

// Key of at most kBytes bytes.
class HmacMd2 {
public:
    HmacMd2(const void *key, size_t bytes);
    void add(const void *data, size_t bytes) { inner_.add(data, bytes); }
    void finish(uint8_t digest[Md2::kBytes]);

private:
    Md2 inner_, outer_;
};

}  // namespace rgpu::calls
