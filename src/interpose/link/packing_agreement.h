// SPDX-License-Identifier: Apache-2.0
// Agrees with a server on how frames are packed: as RGPU_COMPRESSION says, when either side finds
// the link slow, or at once where a method is named.
#pragma once

#include <mutex>

#include "interpose/link/packing.h"
#include "interpose/link/server_session.h"
#include "util/result.h"

namespace rgpu::interpose {

class PackingAgreement {
public:
    enum class Wanted { automatic, off, lz4, zstd };
    // Fails with `invalid` on another word.
    static Result<Wanted> wanted();
    // Whether a method is named.
    static bool is_method(Wanted w) { return w == Wanted::lz4 || w == Wanted::zstd; }

    // Of a session that uses `packing`; both live as long as the process.
    PackingAgreement(ServerSession &session, Packing &packing, Wanted wanted)
        : session_(session), packing_(packing), wanted_(wanted)
    {}

    // Where a method is named: agrees on it, in the calling thread.
    void agree_now();
    // There is something to agree on: a thread of ours does so. Any thread, with any lock.
    void agree_later();

private:
    void run();
    void negotiate();
    unsigned wanted_methods() const;

    ServerSession &session_;
    Packing &packing_;
    const Wanted wanted_;
    std::mutex mutex_;
    bool changed_ = false, running_ = false;  // there is something to agree on; a thread does so
    bool never_ = false;                      // it was tried, and cannot be
};

}  // namespace rgpu::interpose
