// SPDX-License-Identifier: Apache-2.0
// The ways on which a client goes on after its first frame: shared memory, UCX, or more lanes
// beside its connection. Each is the client's offer, and the worker's to take.
//
// The dispatcher's thread only. All fail with `invalid` on what no client sends.
#pragma once

#include <memory>

#include "net/ucx/ucx_transport.h"
#include "worker/session/session.h"

namespace rgpu::worker {

class Offers {
public:
    // For a session over this socket. `number`: by which lanes find this worker; 0: they cannot.
    Offers(Session &session, int fd, uint64_t number) : session_(session), fd_(fd), number_(number)
    {}

    // An offer of UCX may come (Dispatcher::take_ucx).
    void take_ucx(std::unique_ptr<net::UcxTransport> ready)
    {
        takes_ucx_ = true, ucx_ = std::move(ready);
    }

    // The connection's first frame, which alone may be an offer. `taken`: it was one, and has been
    // answered.
    Result<void> take_first(const wire::FrameHeader &, bool &taken);
    // A frame of type kLanesCall.
    Result<void> take_lanes(const wire::FrameHeader &);

private:
    Result<void> take_shared_memory(const wire::FrameHeader &);
    Result<void> take_ucx_offer(const wire::FrameHeader &);

    Session &session_;
    const int fd_;
    const uint64_t number_;
    bool takes_ucx_ = false;
    std::unique_ptr<net::UcxTransport> ucx_;
};

}  // namespace rgpu::worker
