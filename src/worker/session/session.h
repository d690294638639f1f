// SPDX-License-Identifier: Apache-2.0
// What the calls of one connection share: its objects and addresses, copies and host functions that
// are under way, and how calls are answered. dispatch/dispatcher.h carries them out one by one.
//
// One for each connection, and in a worker for the whole process. The dispatcher's thread uses all
// of it; what other threads may use says so.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "calls/calls.h"
#include "net/transport/laned_transport.h"
#include "serverd/worker_start.h"
#include "wire/codec.h"
#include "worker/connection/console.h"
#include "worker/connection/input.h"
#include "worker/connection/sender.h"
#include "worker/copies/copies.h"
#include "worker/copies/frees.h"
#include "worker/copies/long_copies.h"
#include "worker/copies/mirrored_memory.h"
#include "worker/limits/turns.h"
#include "worker/session/addresses.h"
#include "worker/session/callbacks.h"
#include "worker/session/exports.h"
#include "worker/session/images.h"
#include "worker/session/objects.h"

namespace rgpu::worker {

// One call that came in.
struct Call {
    wire::FrameHeader header;
    calls::CallId id{};
    wire::Reader body{nullptr, 0};
    bool context_gone = false;  // the client thread's current context has been destroyed
    // The current context of a thread that is not the dispatcher's, which carries the call out
    // while that waits in the driver (dispatch/relief.h). A handler that cannot be called so
    // declines.
    CUcontext relief = nullptr;
    bool declined = false;
    Result<void> decline()
    {
        declined = true;
        return {};
    }

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
    // Over this socket, until use() is called; `start` says what the lease may have. The console
    // outlives the session.
    Session(int fd, Console &console, const serverd::WorkerStart &start)
        : transport_(std::make_unique<net::LanedTransport>(Fd(fd), nullptr, Input::kMoment)),
          input(*transport_), sender(*transport_),
          copies(sender, console, staging, large_staging, waiters),
          long_copies(sender, copies, large_staging, waiters),
          turns([this](const std::string &text) { sender.text(text); }, start),
          images(start.images, start.image_bytes), exports(Mailbox::here(), start.lease),
          console_(console)
    {}

    // Everything goes this way from now on.
    void use(std::unique_ptr<net::Transport>);
    // The connection that it began with, which takes lanes; null where another way is used now.
    net::LanedTransport *laned()
    {
        return before_ ? nullptr : static_cast<net::LanedTransport *>(transport_.get());
    }

    // Makes a client thread's current context the dispatcher's. `gone`: it has been destroyed.
    CUresult enter(HandleId context, bool &gone);
    CUcontext context() const { return context_; }

    // Carries out a call that the client waits for, in its context: now, or when no queued work
    // waits for a host function. NVIDIA's driver may wait for all work of the context in it,
    // without taking other calls meanwhile, and the client may need some to end its function. A
    // function may wait for the very call, too: after kPatience it is carried out whatever there
    // is.
    void when_quiet(const Call &, std::function<void(const Call &)> carry_out);
    // Those whose time has come; false where none is left. Before a frame is waited for.
    bool carry_out_late();

    // A program has so many threads that wait, and so many copies and host functions under way, at
    // most.
    static constexpr size_t kMostBehind = 16384;
    // Calls that no thread has begun.
    size_t behind() const { return waiters.behind() + late_.size(); }

    // Answers a call that has been carried out: now, and for a posted call only if it failed (then
    // it is remembered for the next call that waits).
    void finish(const Call &, CUresult, const std::vector<uint8_t> &body = {});
    // Answers a call that had to wait for the GPU: after everything that the client may now look
    // at. Any thread.
    void finish_wait(const Call &, CUresult);
    // Sends what the client may look at once it learns that the GPU has got this far. Any thread.
    void send_past();

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
    Turns turns;
    Callbacks callbacks{turns, sender, [this] { send_past(); }};
    MirroredMemory mirrored;
    Images images;
    Exports exports;

private:
    Console &console_;
    std::unique_ptr<net::Transport> before_;  // the connection, where another way is used now
    CUcontext context_ = nullptr;
    static constexpr std::chrono::milliseconds kPatience{1000};
    struct Late {
        Call call;
        std::chrono::steady_clock::time_point at_last;
        std::function<void(const Call &)> carry_out;
    };
    std::deque<Late> late_;
    std::atomic<CUresult> posted_error_{CUDA_SUCCESS};
};

// What a handler answers to a body that is longer or shorter than its parameters.
inline Error misfit() { return error(ErrorKind::invalid, "its body does not fit its parameters"); }

}  // namespace rgpu::worker
