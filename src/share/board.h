// The board: the token scheduler of one GPU in memory that all its workers share.
//
// There is no scheduler process. Whoever ends a turn, or waits for one, looks at the board under its lock and moves the
// token by the rules of policy.h. The lock is robust, and each worker holds a robust lock of its own for as long as it
// lives: what a killed worker leaves is noticed and cleaned up by whoever comes next. rgpud makes the memory and hands
// it to its workers as an open file; it is not needed afterwards.
//
// Times are CLOCK_MONOTONIC in nanoseconds, which all processes of a host share.
#pragma once

#include <pthread.h>

#include <atomic>
#include <string>
#include <vector>

#include "share/policy.h"
#include "util/fd.h"
#include "util/result.h"

namespace rgpu::share {

inline constexpr int kMaxWorkers = 1024;  // of all tenants of a GPU

int64_t clock_now();

// One worker. What is atomic is read by others without the lock.
struct Seat {
    pthread_mutex_t alive;  // robust; held by a thread of the worker for ever
    int32_t used, tenant, pid, waiting;
    int32_t at_ceiling;     // while it waits: for its tenant's own ceiling
    // Counted before the driver is called, so that nobody takes the token between the look at it and the launch;
    // without work these two are equal.
    std::atomic<uint64_t> launches, completed;
    std::atomic<int64_t> under_way;  // since when the oldest work that is looked after runs; 0: none
    std::atomic<uint32_t> gates;     // streams that stand at a host function: their work does not run
    std::atomic<uint64_t> bytes;     // copied to and from the host
    std::atomic<int64_t> memory;     // of the GPU, held by the tenant, as this worker saw it last
    std::atomic<int64_t> longest;    // the longest work that was looked at
    uint64_t launches_seen, bytes_seen;
};

struct Memory {
    char magic[8];
    uint32_t version, bytes;
    pthread_mutex_t lock;
    std::atomic<uint32_t> token;             // who has it: tenant + 1, and kClosing
    std::atomic<uint32_t> calls[kMaxTenants];  // futexes: moved when the tenant gets the token
    std::atomic<uint32_t> tenants;           // that have workers
    std::atomic<int64_t> deadline;           // of the turn
    int64_t closing_at;
    State state;
    int32_t seat_end;
    Seat seats[kMaxWorkers];
};

// In `token`: the holder must launch nothing more.
inline constexpr uint32_t kClosing = 1u << 31;

// How a tenant stands, for people.
struct TenantView {
    std::string lease;
    Terms terms;
    int workers = 0;
    bool holds = false, waits = false;
    double due = 0;                      // of the GPU, now
    double given_1s = 0, given_10s = 0, given_1min = 0;
    double given_seconds = 0;            // in all
    double owed_seconds = 0;             // lag
    uint64_t turns = 0, launches = 0, bytes = 0;
    double launches_per_s = 0, bytes_per_s = 0;
    int64_t memory = 0;
    double longest_s = 0, running_s = 0;  // the longest work seen; how long what runs now has run
};

class Board {
public:
    // The file of the board at `path`, made if it is not there. It must belong to this user alone.
    static Result<Fd> file(const std::string &path);
    static Result<Board> map(int fd);

    Board(Board &&) noexcept;
    Board &operator=(Board &&) noexcept;
    ~Board();

    // A seat for this process, held by the calling thread for as long as that lives. Fails with `exhausted`.
    Result<int> sit(const std::string &lease, Terms);

    Seat &seat(int i) { return memory_->seats[i]; }
    // The tenant of this seat has the token and may launch: the fast path's whole question.
    bool may_launch(int tenant) const
    {
        return memory_->token.load(std::memory_order_seq_cst) == static_cast<uint32_t>(tenant) + 1;
    }
    // No other tenant has a worker here.
    bool alone() const { return memory_->tenants.load(std::memory_order_relaxed) <= 1; }

    // Asks for the token. True: the tenant has it, and one launch is counted. False: wait() until `again`, then ask anew.
    bool ask(int seat, int64_t now, int64_t &again);
    void wait(int seat, uint32_t call, int64_t until);
    uint32_t call_of(int seat) const;

    // Of a wait for the token: what keeps it is the tenant's own ceiling. The seat's own thread.
    bool at_ceiling(int seat) const { return memory_->seats[seat].at_ceiling != 0; }

    // Work of this seat has been completed. Returns when to call this again if nothing new happens; 0: no need. To `fresh` is added
    // the tenant's GPU time that nobody has collected yet.
    int64_t completed(int seat, int64_t now, int64_t *fresh = nullptr);
    // The same for who is no worker: of this tenant, or (empty) of all that have no worker left.
    struct Collected {
        std::string lease;
        int64_t given = 0;
    };
    std::vector<Collected> collect(const std::string &lease, int64_t now);
    // How much work, in nanoseconds, the tenant may have unfinished on the GPU.
    int64_t ahead(int64_t now) const;

    // Cleans up what dead workers left. rgpud does so now and then; workers that wait do, too.
    void sweep(int64_t now);
    std::vector<TenantView> view(int64_t now);
    int workers();

private:
    class Lock;
    explicit Board(Memory *memory) : memory_(memory) {}
    void recover();
    bool dead(Seat &);
    void bury(Seat &, int64_t now);
    bool idle(int tenant) const;
    bool stuck(int64_t now) const;
    void close_turn(int64_t now);
    bool try_end(bool cut, int64_t now, int64_t *again);
    void end(bool cut, int64_t now, int64_t *again);
    void pass(int64_t now, int64_t *again, int but = kNobody);
    void count(Seat &, int64_t now);

    Memory *memory_ = nullptr;
};

}  // namespace rgpu::share
