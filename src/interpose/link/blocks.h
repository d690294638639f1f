// SPDX-License-Identifier: Apache-2.0
// The blocks of something large on their way to the server, a call each; of one thread.
//
// Where the server is on the program's host and reads from a socket, the program stays kAhead
// blocks ahead of it: each block but the last ones is answered when it has been read. There is no
// network to be kept full, and what waits for longer has left the processors' caches when it is
// read (doc/performance.md). The kernel has no such bound that it keeps without dropping what it
// had room for (doc/decisions.md). Of kFew blocks or fewer none is waited for: the kernel takes
// them all, and a program that does not wait for its copy goes on. The wait is no round trip
// (stats.h), as little as one for room in a socket.
#pragma once

#include <array>

#include "interpose/link/server_session.h"

namespace rgpu::interpose {

class Blocks {
public:
    // So many of them.
    Blocks(ServerSession &session, size_t count) : session_(session), count_(count) {}
    ~Blocks();
    Blocks(const Blocks &) = delete;
    Blocks &operator=(const Blocks &) = delete;

    // ServerSession::post for the next one. What it answers may be the failure of one before.
    template <class Write>
    CUresult post(calls::SentCall id, uint32_t context, Write &&write, Payload payload);

private:
    static constexpr size_t kFew = 16;
    // One is being read while another one comes. A third would be as many bytes as the cache of a
    // processor holds, or more.
    static constexpr size_t kAhead = 2;

    struct Block {
        Answer read;
        bool asked = false;
    };
    CUresult make_room();

    ServerSession &session_;
    const size_t count_;
    size_t sent_ = 0;
    std::array<Block, kAhead> blocks_;
};

template <class Write>
CUresult Blocks::post(calls::SentCall id, uint32_t context, Write &&write, Payload payload)
{
    if (CUresult r = make_room()) return r;
    Block &b = blocks_[sent_ % kAhead];
    const bool asks = session_.is_near() && count_ > kFew && sent_ + kAhead < count_ &&
                      !every_call_waits();
    sent_++;
    if (!asks) return session_.post(id, context, write, payload);
    const CUresult r = session_.post_block(id, context, write, payload, b.read);
    b.asked = true;
    return r;
}

}  // namespace rgpu::interpose
