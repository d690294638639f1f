// SPDX-License-Identifier: Apache-2.0
// A worker's seat at the scheduler of one GPU: whether its tenant has the token, and what it tells
// of its work.
//
// Without a scheduler (it never was, has died, or has not looked for 2 s) everything may be
// launched: better without turns than not at all.
#pragma once

#include <memory>

#include "share/pages.h"

namespace rgpu::share {

class Seat {
public:
    // Sits down; `socket` is what rgpud gave for the GPU. Fails with `disconnected` where there is
    // no scheduler.
    static Result<std::unique_ptr<Seat>> take(int socket);

    Told &told() { return *end_.told; }
    // The tenant has the token and may launch: the fast path's whole question.
    bool may_launch() const
    {
        return (says().token.load(std::memory_order_seq_cst) & (kMine | kClosing)) == kMine;
    }
    // The lease may have less than all of the GPU's time now. Without a scheduler what it said
    // last.
    bool has_ceiling() const { return end_.says->has_ceiling.load(std::memory_order_relaxed) != 0; }
    bool alone() const { return says().alone.load(std::memory_order_relaxed) != 0; }
    // How much work, in nanoseconds, the tenant may have unfinished on the GPU.
    int64_t ahead(int64_t now) const;

    // --- the thread that launches

    // Asks for the token. True: the tenant has it, and one launch is counted; the caller tells
    // began(). False: wait(), then ask anew.
    bool ask();
    // For the token, and not long.
    void wait();
    // Of a wait for the token: what keeps it is the tenant's own ceiling.
    bool at_ceiling() const { return says().at_ceiling.load(std::memory_order_relaxed) != 0; }

    // --- under a lock of the caller's
    void began(int64_t now);
    // Work up to this launch has been completed. True: tell() is due.
    bool completed(uint64_t launches, int64_t now);

    // --- any thread
    void tell();
    // After the scheduler did not answer: goes back to it when it does. Now and then.
    void look_again();

private:
    explicit Seat(TenantEnd end);
    const Says &says() const { return *says_.load(std::memory_order_relaxed); }
    void go_without();

    TenantEnd end_;
    Says nobodys_{};  // in place of the scheduler's
    std::atomic<const Says *> says_;
    int64_t asked_ = 0;  // since when it waits
    std::atomic<int64_t> looked_{0};
    bool gone_ = false;
};

}  // namespace rgpu::share
