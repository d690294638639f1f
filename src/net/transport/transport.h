// SPDX-License-Identifier: Apache-2.0
// How a connection carries its bytes: one ordered stream each way, over a socket or through memory
// that both sides see.
//
// One thread at a time receives; one at a time sends or waits for room; any thread may wait for the
// rest, and shut it down.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

namespace rgpu::net {

// What to read into a buffer behind a block that is large enough to go where it belongs: most of
// the time another one follows, and what of it is in the buffer is copied once more.
inline constexpr size_t kBehindLarge = 4 << 10;

// Bytes of the stream that lie where the peer put them, until they are given back
// (Transport::give_back).
struct Lent {
    const void *data = nullptr;
    size_t bytes = 0;
    void *place = nullptr;  // that they lie in, the same ones again and again
    size_t place_bytes = 0;
};

class Transport {
public:
    enum Event : unsigned {
        kData = 1,
        kRoom = 2,
        kPlace = 4
    };  // something to receive (or the end), room to send, a place to reserve

    virtual ~Transport() = default;
    virtual const char *name() const = 0;

    // Some of the stream, at most `bytes`. 0: the peer has closed. -1: nothing within `timeout`
    // milliseconds (EAGAIN; 0: does not wait, -1: as long as it takes), the program has closed our
    // descriptors (EBADF), or another errno: it is broken.
    virtual ssize_t receive(void *to, size_t bytes, int timeout) = 0;
    // Sends from the parts in their order; how much, or -1 as above.
    virtual ssize_t send(const iovec *parts, int count, int timeout) = 0;
    // Which of the events there are, 0 when the time is over or for no reason.
    virtual unsigned wait(unsigned events, int timeout) = 0;

    // Reading less than this at once costs more than reading on into a buffer.
    virtual size_t worth_reading() const { return 1; }

    // Whether the connection's descriptors are still ours: a program that closes all it finds may
    // get the numbers for files of its own.
    virtual bool ours() const = 0;
    // Ends both directions, for the peer, too.
    virtual void shutdown() = 0;
    // In the child of a fork: lets go of what is the parent's.
    virtual void leave_to_parent() = 0;

    // Copies that need not be made, where the transport can.
    virtual bool lends() const { return false; }
    // Bytes that the peer put into a place of their own, the next of the
    // stream: at most `most`, received herewith; no data: they are not such. The receiving
    // thread's.
    virtual Lent lend(size_t) { return {}; }
    virtual void give_back(const Lent &) {}
    // A place whose bytes send() passes on as they are, when a part begins there; null: none is
    // free. After that it is the peer's. Any thread.
    virtual void *reserve(size_t &) { return nullptr; }
    virtual void unreserve(void *) {}
    // How many places were sent and will come back.
    virtual unsigned places_under_way() { return 0; }
};

}  // namespace rgpu::net
