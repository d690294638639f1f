// SPDX-License-Identifier: Apache-2.0
// The board: who has the token of one GPU, kept by rgpu-scheduler in its own memory
// (doc/sharing.md).
//
// Workers tell of their work in pages of their own (pages.h), which are read here and nowhere else:
// each word once, clamped. What a worker writes that is not true can cost its own tenant its turns,
// and nobody else anything. One thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "share/pages.h"
#include "share/policy.h"
#include "util/result.h"

namespace rgpu::share {

inline constexpr size_t kMaxWorkers = 1024;  // of all tenants of a GPU

// How a tenant stands, for people. Plain memory: it is sent as it is.
struct TenantView {
    char lease[kKeyBytes];
    Terms terms;
    int32_t workers;
    bool holds, waits;
    double due;  // of the GPU, now
    double given_1s, given_10s, given_1min;
    double given_seconds;  // in all
    double owed_seconds;   // lag
    uint64_t turns, launches, bytes;
    double launches_per_s, bytes_per_s;
    int64_t memory;
    double longest_s, running_s;  // the longest work seen; how long what runs now has run
};

// GPU time that a lease was given and nobody was told of before.
struct Given {
    char lease[kKeyBytes];
    int64_t nanoseconds;
};

class Board {
public:
    explicit Board(int64_t now);
    Board(Board &&) noexcept;
    ~Board();

    // A worker of this lease will come to the desk; what is known of it goes by this number. Fails
    // with `exhausted`. It is told that its tenant may have so many bytes of the memory.
    Result<uint64_t> open(const std::string &lease, Terms, SchedulerEnd, uint64_t memory = 0);
    // From now on the lease has these terms, and so much memory: its workers have been told when
    // this returns. Returns how many those are.
    size_t change(const std::string &lease, Terms, uint64_t memory, int64_t now);
    // The worker has gone.
    void close(uint64_t seat, int64_t now);
    bool has(uint64_t seat) const { return seats_.count(seat) != 0; }
    size_t workers() const { return seats_.size(); }

    // Reads what workers tell, and moves the token. Returns when to do so again at the latest.
    int64_t look(int64_t now);

    std::vector<TenantView> view(int64_t now);
    std::vector<Given> collect(int64_t now);

private:
    struct Seat;

    void read(int64_t now);
    void read(Seat &, int64_t now);
    void sit(Seat &, int64_t now);
    void replay(bool was, bool is, int64_t worked, uint64_t bursts, int64_t from, int64_t now);
    bool holds(const Seat &) const;
    bool idle();
    bool stuck(int64_t now, int64_t *again) const;
    void say(Seat &, uint32_t token);
    void say_holders(uint32_t token);
    bool step(int64_t now, int64_t *again);
    bool try_end(bool cut, int64_t now);
    void end(bool cut, int64_t now);
    void pass(int64_t now, int64_t *again, int but = kNobody);
    bool others_wait() const;
    void publish(int64_t now);

    State state_;
    std::map<uint64_t, std::unique_ptr<Seat>> seats_;
    uint64_t last_ = 0;
    bool closing_ = false;
    int64_t closing_at_ = 0;
    int but_ = kNobody;  // not the next one, as its turn was for nothing
};

}  // namespace rgpu::share
