// SPDX-License-Identifier: Apache-2.0
// Large copies to the host that their caller waits for. Each is carried out by a thread of its own,
// a few chunks ahead of the network, so that the dispatcher goes on with other threads' calls.
//
// Until its caller has the answer nobody can count on such a copy: calls that come meanwhile, in
// its stream too, are in no order with it, and their answers need not wait for its bytes.
#pragma once

#include <condition_variable>
#include <mutex>

#include "util/waiters.h"
#include "worker/connection/sender.h"
#include "worker/copies/copies.h"
#include "worker/copies/staging.h"

namespace rgpu::worker {

class LongCopies {
public:
    // `staging`: without a limit of its own.
    LongCopies(Sender &sender, Copies &others, Staging &staging, Waiters &waiters)
        : sender_(sender), others_(others), staging_(staging), waiters_(waiters)
    {}

    using Copy = Copies::Copy;
    // Dispatcher only, like all here. Answers the sequence, whatever comes.
    void start(const Copy &);
    // Before a context ends: waits until no copy is under way, and lets go of what was made in it.
    void forget(CUcontext);

private:
    void carry_out(Copy);

    Sender &sender_;
    Copies &others_;
    Staging &staging_;
    Waiters &waiters_;
    std::mutex mutex_;
    std::condition_variable ended_;
    size_t under_way_ = 0;
};

}  // namespace rgpu::worker
