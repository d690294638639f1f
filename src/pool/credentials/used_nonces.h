// SPDX-License-Identifier: Apache-2.0
// The credentials of method "key" that were used: each is good once, also across a restart of
// rgpud.
//
// They stand in a file, one record each: i64 time (ms since the epoch), 32 bytes nonce. A record is
// written before its request is carried out, and outlives the process; the kernel may lose it when
// the host loses its power. So what was signed before the host's boot is refused.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "util/fd.h"
#include "util/result.h"

namespace rgpu::pool {

// One thread at a time. Times are ms since the epoch.
class UsedNonces {
public:
    // `path` empty: nothing outlives the process. `booted`: what was signed before is refused.
    // Fails with `invalid` when the file cannot be read or written.
    static Result<UsedNonces> open(const std::string &path, int64_t now, int64_t booted);

    // Fails with `invalid` when the nonce was used before, or is out of the window, and with
    // `unavailable` when it cannot be remembered. `nonce` has 32 bytes.
    Result<void> use(const std::string &nonce, int64_t sent, int64_t now);

private:
    void forget(int64_t now);
    Result<void> read();
    Result<void> rewrite();

    std::string path_;
    Fd file_;
    size_t records_ = 0;  // in the file
    int64_t booted_ = 0;
    std::map<std::string, int64_t> seen_;
    std::multimap<int64_t, std::string> by_time_;
};

}  // namespace rgpu::pool
