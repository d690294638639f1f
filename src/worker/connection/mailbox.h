// SPDX-License-Identifier: Apache-2.0
// Where other workers of this tenant ask for descriptors of memory that this one shares.
//
// A mailbox is a datagram socket in /dev/shm, which the workers of a tenant have for themselves
// (doc/spawner.md), or else only their user may write to. A question is a key and the socket that
// the answer goes to. Whoever has no key gets no answer, and nobody waits for one long.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "util/fd.h"
#include "util/result.h"
#include "wire/shareable.h"

namespace rgpu::worker {

// One for the process.
class Mailbox {
public:
    static Mailbox &here();

    // Before the filter of system calls, which denies what this needs. Where it fails nothing can
    // be shared.
    void open();
    // Before the process ends.
    void close();

    bool is_open() const { return static_cast<bool>(socket_); }
    uint64_t number() const { return number_; }

    // Gives copies of a descriptor to whoever says the key, until withdraw(); `bytes` go along.
    // Fails with `exhausted` without a thread for that. Any thread.
    Result<void> offer(const wire::ShareKey &, Fd, uint64_t bytes);
    void withdraw(const wire::ShareKey &);

private:
    struct Offered {
        Fd fd;
        uint64_t bytes = 0;
    };
    void serve();
    void answer(int to, const wire::ShareKey &);

    Fd socket_;
    uint64_t number_ = 0;
    std::string path_;
    std::mutex mutex_;
    bool serves_ = false;
    std::map<wire::ShareKey, Offered> offered_;
};

// A key that nobody can guess.
Result<wire::ShareKey> new_share_key();

// What a mailbox has for a key.
struct Received {
    Fd fd;
    uint64_t bytes = 0;
};
// Fails with `invalid` where no such worker has it, and with `unavailable` where that worker does
// not answer in time. Waits a second at most, and for this tenant's own worker alone.
Result<Received> ask_mailbox(uint64_t number, const wire::ShareKey &);

}  // namespace rgpu::worker
