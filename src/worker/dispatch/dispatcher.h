// SPDX-License-Identifier: Apache-2.0
// The server's end of one connection: takes calls off the socket in order and carries them out.
//
// The dispatcher (run()) is one thread and never waits for the GPU: handlers give what has to wait
// to Waiters, which answer it. Nothing off the wire is believed: calls/serve.h and
// connection/input.h check it.
#pragma once

#include <memory>

#include "worker/connection/packing.h"
#include "worker/dispatch/offers.h"
#include "worker/nccl/nccl.h"
#include "worker/session/session.h"

namespace rgpu::worker {

class Dispatcher {
public:
    // Over this socket, and through shared memory or UCX where the client offers that. `start` says
    // what the lease may have.
    Dispatcher(int fd, Console &console, const serverd::WorkerStart &start)
        : session(fd, console, start), offers_(session, fd, number_for_lanes(start)),
          nccl_(session, start)
    {}

    // An offer of UCX may come, and with it what is ready for it; null: that is made when it comes.
    // Before run().
    void take_ucx(std::unique_ptr<net::UcxTransport> ready) { offers_.take_ucx(std::move(ready)); }

    // Closed when the client first rests, or goes: what waits for that does not disturb its start.
    // Before run().
    void close_later(Fd channel) { channel_ = std::move(channel); }

    // Carries out calls until the client goes. Fails with `invalid` when the client sends what no
    // client may.
    Result<void> run();

    Session session;

private:
    // Lanes are not encrypted: where the connection is, there are none.
    static uint64_t number_for_lanes(const serverd::WorkerStart &start)
    {
        return start.key == serverd::kNoDescriptor ? start.number : 0;
    }
    Result<void> carry_out();
    Result<void> step(const wire::FrameHeader &);

    Offers offers_;
    nccl::Nccl nccl_;
    Packing packing_{session.input, session.sender};
    Fd channel_;
    bool first_ = true;  // frame
    bool relief_ = false;
};

}  // namespace rgpu::worker
