// SPDX-License-Identifier: Apache-2.0
// A TCP connection that further ones may join later, to carry the bytes of large sends: several are
// faster than one where each has a limit of its own (a window over a long way, a policy, one
// processor for each flow's packets).
//
// Before lanes begin, and for a peer that knows none, it is a SocketTransport and nothing else.
// Then each side sends records (wire/lanes.h): small sends as one on the first connection, behind
// its head; of large ones pieces go to whichever lane has room, while the others are full, or all
// of it goes as small ones do, where lanes are no faster (lane_meter.h). The receiver takes records
// in their order, so that the stream is what it was; bytes that come early wait in the kernel's
// buffers.
//
// What a lane ends with ends the connection.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "net/transport/lane_meter.h"
#include "net/transport/socket_transport.h"
#include "wire/lanes.h"

namespace rgpu::net {

class LanedTransport : public SocketTransport {
public:
    using SocketTransport::SocketTransport;

    // Sends of less go where the calls go.
    static constexpr size_t kLeast = 64 << 10;

    // Each once. The lanes, in the peer's order, before either of the others; any thread, nobody
    // sends or receives meanwhile.
    void add(std::vector<OwnSocket> lanes);
    // From now on; the sending thread's, with nothing half sent. `always`: what is large goes over
    // lanes also where they are no faster.
    void begin_sending(bool always);
    // From now on; the receiving thread's. `come`: what it has received behind the place where
    // records begin.
    void begin_receiving(const void *come, size_t bytes);
    size_t lanes() const { return lanes_.size(); }

    ssize_t receive(void *to, size_t bytes, int timeout) override;
    // Who gets -1 and EAGAIN, or a part, sends the same bytes next: some of them may be under way.
    ssize_t send(const iovec *parts, int count, int timeout) override;
    unsigned wait(unsigned events, int timeout) override;
    void shutdown() override;
    void leave_to_parent() override;

private:
    static constexpr int kNotYet = -2, kHere = -1;

    // Of a piece that goes that way, what is yet to be sent: a part of the block that send() has
    // begun.
    struct Lane {
        OwnSocket socket;
        size_t at = 0, left = 0;
    };

    bool record_is_there();
    ssize_t next_record(size_t bytes, int timeout);
    ssize_t fill(size_t wanted, int timeout);
    ssize_t receive_here(void *to, size_t bytes, int timeout);
    ssize_t receive_on(Lane &, void *to, size_t bytes, int timeout);
    void note_waiting();
    void announce(size_t bytes, size_t lane);
    void heads_went(size_t bytes);
    ssize_t send_here(const iovec *parts, int count, int timeout);
    ssize_t send_block(const uint8_t *block, size_t bytes, int timeout);
    bool give_pieces(size_t bytes);
    int push_heads();
    int push(Lane &, const uint8_t *block);
    void end_block(size_t bytes);

    std::vector<Lane> lanes_;  // there when laned_ says so

    // The receiver's.
    bool receiving_ = false;
    std::unique_ptr<uint8_t[]>
        in_;  // of the first connection: received and not taken is [in_at_, in_end_)
    size_t in_at_ = 0, in_end_ = 0;
    wire::Record record_;  // the one that is being received; its bytes are what is left of it
    bool broken_ = false;  // that is none
    // The descriptor that its next bytes come from, or that they are here, or that records have not
    // begun. For wait().
    std::atomic<int> waiting_on_{kNotYet};

    // The sender's.
    bool sending_ = false;
    std::vector<uint8_t>
        heads_;  // of records, which are to be sent on the first connection, from heads_at_ on
    size_t heads_at_ = 0;
    size_t here_left_ = 0;          // of the record that goes there
    size_t block_ = 0, given_ = 0;  // of the block that is being sent over lanes: its bytes, and
                                    // those that a lane has, or had
    bool always_ = true;
    LaneMeter meter_;
    std::chrono::steady_clock::time_point block_since_;
    size_t here_large_ = 0;           // the bytes of a block that goes as small ones do
    size_t turn_ = 0;                 // the lane that is asked first
    std::atomic<bool> laned_{false};  // for other threads, and children
};

}  // namespace rgpu::net
