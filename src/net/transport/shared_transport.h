// SPDX-License-Identifier: Apache-2.0
// A connection through memory, for two processes on one host. Nothing but a sleeping side needs the
// kernel: it is woken through a pair of sockets (the bells), of which the first also tells that the
// other process has ended.
#pragma once

#include <memory>
#include <mutex>

#include "net/transport/own_socket.h"
#include "net/transport/shared_ring.h"
#include "net/transport/transport.h"
#include "util/result.h"

namespace rgpu::net {

// The memory that both map: a ring to the server, one to the client.
struct SharedMemory {
    SharedRing up, down;
};

// What the client makes: a memfd of that size whose size nobody can change (memfd_create(2),
// F_SEAL_SHRINK and F_SEAL_GROW).
Result<Fd> make_shared_memory();

class SharedTransport : public Transport {
public:
    enum class Side { client, server };

    // Maps the memory. Fails with `invalid` where that is not a memory file of that size, sealed
    // so, and `exhausted` where there is no room for it. The sockets are connected to the peer's.
    // `kept` is closed with it.
    static Result<std::unique_ptr<Transport>> open(Side, int memory, Fd data_bell, Fd room_bell,
                                                   Fd kept);
    // Over memory that is mapped, and becomes its own.
    SharedTransport(SharedMemory *memory, Side, Fd data_bell, Fd room_bell, Fd kept);
    ~SharedTransport() override;

    const char *name() const override { return "shm"; }
    ssize_t receive(void *to, size_t bytes, int timeout) override;
    ssize_t send(const iovec *parts, int count, int timeout) override;
    unsigned wait(unsigned events, int timeout) override;
    // Looked at where a descriptor is used: mostly, none is.
    bool ours() const override { return true; }
    void shutdown() override;
    void leave_to_parent() override;
    bool lends() const override { return true; }
    Lent lend(size_t most) override;
    void give_back(const Lent &) override;
    void *reserve(size_t &bytes) override;
    void unreserve(void *place) override { sender_.unreserve(place); }
    unsigned places_under_way() override { return closed_ ? 0 : sender_.places_under_way(); }

private:
    // A socket on which the peer sends a byte when whoever sleeps here should look again. Several
    // threads may sleep.
    class Bell {
    public:
        explicit Bell(Fd fd) : socket(std::move(fd)) {}
        void ring() const;   // the peer's
        bool begin_sleep();  // false: the peer has ended
        void end_sleep();

        OwnSocket socket;

    private:
        std::mutex mutex_;
        int sleepers_ = 0;
    };

    bool sleep(unsigned events, int timeout);
    unsigned there(unsigned events);
    void woke_sender();

    SharedMemory *memory_;
    SharedRing &in_, &out_;
    RingReceiver receiver_;
    RingSender sender_;
    Bell data_, room_;
    OwnSocket kept_;
    std::atomic<bool> closed_{false};
};

}  // namespace rgpu::net
