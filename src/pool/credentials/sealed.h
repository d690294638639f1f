// SPDX-License-Identifier: Apache-2.0
// A lease's secret on its way over the control port, which only its asker can read.
//
// X25519 (RFC 7748) between a key of the asker's, which its credential vouches for, and one that
// the server makes for this answer. SHA-256 as HMAC with what the two agree on, over both public
// keys and the lease's id, gives the key of AES-256-GCM (NIST SP 800-38D), which is used once, with
// a nonce of zeros. Any thread may call all of it.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "util/result.h"

namespace rgpu::pool {

// The asker's half.
class SealKey {
public:
    static Result<SealKey> make();

    // The public key, 64 hex digits: the request's ?key=.
    const std::string &text() const { return text_; }
    // What seal() made for this key and lease.
    Result<std::string> open(std::string_view sealed, const std::string &lease) const;

private:
    struct Pair;
    SealKey(std::shared_ptr<const Pair> pair, std::string text)
        : pair_(std::move(pair)), text_(std::move(text))
    {}

    std::shared_ptr<const Pair> pair_;
    std::string text_;
};

// The server's half: raw bytes, its public key first. `key` is a SealKey's text; what is none is
// `invalid`.
Result<std::string> seal(const std::string &key, const std::string &lease, std::string_view secret);

}  // namespace rgpu::pool
