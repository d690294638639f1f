// The server's end of one connection: takes calls off the socket in order and carries them out.
//
// The dispatcher (run()) is one thread and never waits for the GPU: what has to wait is handed to
// Waiters and answered from there. Nothing off the wire is believed: see serve.h and input.h.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "calls/calls.h"
#include "net/transport/laned_transport.h"
#include "net/ucx/ucx_transport.h"
#include "wire/codec.h"
#include "worker/connection/console.h"
#include "worker/connection/input.h"
#include "worker/connection/packing.h"
#include "worker/connection/sender.h"
#include "worker/copies/copies.h"
#include "worker/copies/frees.h"
#include "worker/copies/long_copies.h"
#include "worker/copies/shared.h"
#include "worker/limits/turns.h"
#include "worker/session/addresses.h"
#include "worker/session/callbacks.h"
#include "worker/session/images.h"
#include "worker/session/objects.h"

namespace rgpu::worker {

// One call that came in.
struct Call {
    wire::FrameHeader header;
    calls::CallId id{};
    wire::Reader body{nullptr, 0};
    bool context_gone = false;  // the client thread's current context has been destroyed

    // What a driver says of a call that needs that context.
    CUresult told(CUresult r) const
    {
        return context_gone && r == CUDA_ERROR_INVALID_CONTEXT ? CUDA_ERROR_CONTEXT_IS_DESTROYED
                                                               : r;
    }
    bool wants_reply() const { return header.flags & wire::kWantsReply; }
    bool caller_waits() const { return header.flags & wire::kCallerWaits; }
};

class Session {
public:
    // Over this socket, and through shared memory or UCX where the client offers that.
    Session(int fd, Console &console)
        : transport_(std::make_unique<net::LanedTransport>(Fd(fd), nullptr, Input::kMoment)),
          input(*transport_), sender(*transport_),
          copies(sender, console, staging, large_staging, waiters),
          long_copies(sender, copies, large_staging, waiters),
          turns([this](const std::string &text) { sender.text(text); }), console_(console), fd_(fd)
    {}

    // An offer of UCX may come, and with it what is ready for it; null: that is made when it comes.
    // Before run().
    void take_ucx(std::unique_ptr<net::UcxTransport> ready)
    {
        takes_ucx_ = true, ucx_ = std::move(ready);
    }

    // Closed when the client first rests, or goes: what waits for that does not disturb its start.
    // Before run().
    void close_later(Fd channel) { channel_ = std::move(channel); }

    // Carries out calls until the client goes. Fails with `invalid` when the client sends what no
    // client may.
    Result<void> run();

    // Answers a call that has been carried out: now, and for a posted call only if it failed (then
    // it is remembered for the next call that waits).
    void finish(const Call &, CUresult, const std::vector<uint8_t> &body = {});
    // Answers a call that had to wait for the GPU: after everything that the client may now look
    // at.
    void finish_wait(const Call &, CUresult);
    // Sends what the client may look at once it learns that the GPU has got this far. Any thread.
    void send_past();

    CUcontext context() const { return context_; }

private:
    std::unique_ptr<net::Transport> transport_;

public:
    Input input;
    Objects objects;
    Addresses addresses;
    Sender sender;
    Staging staging, large_staging{Staging::kNoLimit};
    Waiters
        waiters;  // jobs: client threads that wait, and streams with copies to the host under way
    Copies copies;
    LongCopies long_copies;
    Frees frees{waiters};
    Callbacks callbacks;
    Turns turns;
    Shared shared;
    Images images;

private:
    Packing packing_{input, sender};

    Result<void> carry_out();
    Result<void> step(const wire::FrameHeader &);
    CUresult enter(HandleId context, bool &gone);
    Result<void> first_frame(const wire::FrameHeader &, bool &taken);
    Result<void> take_lanes_call(const wire::FrameHeader &);
    Result<void> take_offer(const wire::FrameHeader &);
    Result<void> take_ucx_offer(const wire::FrameHeader &);
    void use(std::unique_ptr<net::Transport>);

    Console &console_;
    int fd_;
    Fd channel_;
    bool first_ = true;  // frame
    bool takes_ucx_ = false;
    std::unique_ptr<net::UcxTransport> ucx_;
    std::unique_ptr<net::Transport> before_;  // the connection, where another way is used now
    CUcontext context_ = nullptr;
    std::atomic<CUresult> posted_error_{CUDA_SUCCESS};
};

// A handler of a line of the table. Fails only on a body that no client sends.
using Handler = Result<void> (*)(Session &, Call &);

// What a handler answers to a body that is longer or shorter than its parameters.
inline Error misfit() { return error(ErrorKind::invalid, "its body does not fit its parameters"); }

// How a line of the table is served. `handle` is null where a client may not send that call.
struct Service {
    Handler handle = nullptr;
    uint32_t max_bytes = wire::kMaxCallBytes;  // of the body
    bool streams = false;                      // the handler reads the body off `input` itself
};
extern const Service kServices[calls::kCallCount];

}  // namespace rgpu::worker
