// SPDX-License-Identifier: Apache-2.0
// NCCL for the client: takes its frames (wire/nccl.h) and has the server's NCCL carry them out.
//
// The dispatcher reads and checks a frame, and has given the driver all that came before. Then a
// thread of the session's waiters makes the calls, one for each frame that is under way: NCCL's
// calls wait for other ranks, which may be other threads of this client, and one may have to end
// another (ncclCommAbort). A frame is answered when its calls have returned, so that its caller's
// next frame comes behind them.
//
// When the client goes, the worker ends, whatever its threads wait for.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "serverd/worker_start.h"
#include "wire/frame.h"
#include "worker/nccl/library.h"
#include "worker/nccl/objects.h"
#include "worker/nccl/request.h"
#include "worker/session/session.h"

namespace rgpu::worker::nccl {

class Nccl {
public:
    // Both live as long as the process.
    Nccl(Session &session, const serverd::WorkerStart &start)
        : session_(session), start_(start), library_(start)
    {}

    // One frame, whose body is still to be read. Fails on what no client sends. Dispatcher only.
    Result<void> take(const wire::FrameHeader &);

    // Frames under way at the same time: each has a thread.
    static constexpr int kMostAtOnce = 256;

private:
    struct Job {
        uint32_t sequence = 0;
        bool grouped = false;
        std::shared_ptr<const std::vector<std::string>> variables;
        std::vector<Request> requests;
    };

    static Result<std::vector<std::string>> read_variables(wire::Reader &);
    // Dispatcher only.
    Result<Job> read(const wire::FrameHeader &, wire::Reader);
    // Whether it may go on; else it has been answered.
    bool is_allowed(const Job &);
    void begin(const Job &);
    void run(Job &);
    void end(const Job &);
    // What must be over before NCCL is told that a communicator ends.
    void wait_for_others(const Job &);
    int carry_out(Job &);
    void refuse(uint32_t sequence, int result, const std::string &why);

    Session &session_;
    const serverd::WorkerStart start_;
    Objects objects_;
    Library library_;
    // What came with the first frame, whether that was carried out or not. Dispatcher only.
    std::shared_ptr<const std::vector<std::string>> variables_;

    std::mutex mutex_;
    std::condition_variable changed_;
    int under_way_ = 0;
};

}  // namespace rgpu::worker::nccl
